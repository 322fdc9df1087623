package nvml

import (
	"cmp"
	"maps"
	"slices"
)

// Class is whose memory of a GPU is.
type Class uint8

// The classes.
const (
	Engine       Class = iota // of a process of an instance
	Allowed                   // of a process of the allow-list
	Foreign                   // of a process that is neither
	Unattributed              // of a process that cannot be told
	Unlisted                  // of no process that the driver lists: its own, too
	NumClass
)

var classes = [NumClass]string{"engine", "allowed", "foreign", "unattributed", "unlisted"}

func (c Class) String() string { return classes[c] }

// OwnersConfig says how to tell whose a process is.
type OwnersConfig struct {
	Proc  string   // where the node's /proc is mounted; empty: /proc
	Allow []string // executables beside the DefaultAllow, as ValidAllow has them
	Node  string
	// Local reports that Proc has the numbers of this process's own namespace, which
	// Claim.Serving is in.
	Local bool
}

// Strange reports whether a process has no business with the memory of another: it is not
// of its family, and its executable is not allowed. Where one of them is gone, or cannot
// be looked at, that is not known, and it is not said.
func (cfg OwnersConfig) Strange(pid, owner int) bool {
	r := &procs{cmp.Or(cfg.Proc, "/proc"), map[int]*process{}}
	p, o := r.look(pid), r.look(owner)
	return p != nil && o != nil && !r.related(p, o) && allows(slices.Concat(DefaultAllow, cfg.Allow), p) == strange
}

// Owners joins processes with instances. It is for one goroutine.
type Owners struct {
	cfg      OwnersConfig
	members  []*member
	searched int64
	last     map[string]*standingOf // by instance
	foreign  map[foreignKey]bool    // of the last sample
}

type foreignKey struct {
	device string
	pid    int
	start  uint64
}

// NewOwners returns Owners that know nobody.
func NewOwners(cfg OwnersConfig) *Owners {
	if cfg.Proc == "" {
		cfg.Proc = "/proc"
	}
	cfg.Allow = slices.Concat(DefaultAllow, cfg.Allow)
	return &Owners{cfg: cfg, last: map[string]*standingOf{}, foreign: map[foreignKey]bool{}}
}

// Share is how the memory of a device is divided, in bytes. Known is false where the
// driver did not say of each process.
type Share struct {
	UUID, Parent string
	Bytes        [NumClass]uint64
	Processes    [NumClass]int
	Known        bool
}

// Account is what follows from a sample.
type Account struct {
	Shares []Share
	// Problem is why nothing can be told of any process; empty: it can.
	Problem   string
	Instances []InstanceAccount
}

// InstanceAccount is what is known of an instance.
type InstanceAccount struct {
	Instance string
	Held     uint64 // bytes, where they are Seen
	Seen     bool   // all that its processes hold
	Most     uint64 // bytes that it could hold, where Seen: all of its devices that others do not
	Why      string // nothing is concluded of it, and why
}

// holding is a process on a device.
type holding struct {
	device *Device
	bytes  *uint64
	driver uint32   // the number that the driver says
	proc   *process // nil: it cannot be found
	class  Class
	member *member  // whose it is; nil: that is not known
	kin    []string // instances that it may belong to
}

// all lists the processes of a sample, and says whose they are.
func (o *Owners) all(r *procs, s *Sample, claims []Claim, open bool) []*holding {
	var list []*holding
	listed := map[int]bool{}
	for i := range s.Devices {
		for _, p := range s.Devices[i].Processes {
			h := &holding{device: &s.Devices[i], bytes: p.Bytes, driver: p.PID, proc: r.look(int(p.PID))}
			if h.proc != nil && h.proc.kernel { // the driver's number is of another namespace
				h.proc = nil
			}
			if h.proc != nil {
				listed[h.proc.pid] = true
			}
			list = append(list, h)
		}
	}
	o.join(r, claims, listed, s.Begun)
	// While the processes of an engine are not known, any may be its own.
	for i := range claims {
		open = open || !slices.ContainsFunc(o.members, func(m *member) bool { return m.inst == claims[i].Instance })
	}
	for _, h := range list {
		o.classify(r, h, open)
	}
	return list
}

func (o *Owners) classify(r *procs, h *holding, open bool) {
	h.class = Unattributed
	if h.proc == nil {
		return
	}
	line := r.line(h.proc)
	for _, p := range line { // the nearest of its line
		for _, m := range o.members {
			if !m.gone && m.process.pid == p.pid {
				h.class, h.member = Engine, m
				return
			}
		}
	}
	byLauncher := map[string]*member{}
	for _, m := range o.members {
		if !m.gone && slices.Contains(line, r.launcher(m.process)) {
			byLauncher[m.inst] = m
		}
	}
	if len(byLauncher) > 0 {
		h.class, h.kin = Engine, slices.Sorted(maps.Keys(byLauncher))
		if len(h.kin) == 1 {
			h.member = byLauncher[h.kin[0]]
		}
		return
	}
	switch allows(o.cfg.Allow, h.proc) {
	case allowed:
		h.class = Allowed
	case strange:
		if !open {
			h.class = Foreign
		}
	}
}

// shares divides the memory of the devices.
func shares(s *Sample, list []*holding) (all []Share) {
	for i := range s.Devices {
		d := &s.Devices[i]
		if d.UUID == "" {
			continue
		}
		share := Share{UUID: d.UUID, Parent: d.Parent, Known: d.State == OK && d.Listed == OK && !d.Split}
		for _, h := range list {
			switch {
			case h.device != d:
			case h.bytes == nil:
				share.Processes[h.class]++
				share.Known = false
			default:
				share.Processes[h.class]++
				share.Bytes[h.class] += *h.bytes
			}
		}
		if unlisted, ok := d.Unlisted(); ok {
			share.Bytes[Unlisted] = unlisted
		}
		all = append(all, share)
	}
	return all
}
