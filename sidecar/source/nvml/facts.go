package nvml

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"time"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
)

// restate is how often what has not changed is said again.
const restate = 10 * time.Second

// nowhere stands for the GPU of a process that holds nothing on any.
const nowhere = "none"

// standingOf is what is remembered of an instance.
type standingOf struct {
	short   bool   // it held less than it claims, at the last sample
	used    uint64 // of the claim, when that began
	active  bool   // and has been used since, by the last sample
	devices []string
	said    []usage
	saidAt  int64
	since   int64
}

// usage is one that is said.
type usage struct {
	pid   int64
	gpu   string
	bytes uint64
}

// Take divides the memory of a sample and returns the facts that follow, in order and
// without times. claims are those of the instances of this node; open reports that
// there are engines of which nothing is known yet.
func (o *Owners) Take(s *Sample, claims []Claim, open bool) (a Account, facts []*lifecycle.Fact) {
	r := &procs{o.cfg.Proc, map[int]*process{}}
	if !r.host() {
		for i := range s.Devices {
			for j := range s.Devices[i].Processes { // unknown, each of them
				r.known[int(s.Devices[i].Processes[j].PID)] = nil
			}
		}
		a.Problem = errNotHost.Error()
		claims, open = nil, true
	}
	if !o.cfg.Local {
		for i := range claims {
			claims[i].Serving = 0
		}
	}
	list := o.all(r, s, claims, open)
	a.Shares = shares(s, list)
	for i := range claims {
		c := &claims[i]
		usages, why := o.usages(s, list, c, claims)
		one := InstanceAccount{Instance: c.Instance, Seen: usages != nil, Why: why}
		for _, u := range usages {
			one.Held += u.bytes
		}
		if why == "" {
			facts = append(facts, o.say(s, c, usages)...)
		}
		if one.Seen {
			one.Most = most(s, list, c.Instance)
		}
		a.Instances = append(a.Instances, one)
	}
	facts = append(facts, o.strangers(s, list, claims)...)
	for inst := range o.last {
		if !slices.ContainsFunc(claims, func(c Claim) bool { return c.Instance == inst }) {
			delete(o.last, inst)
		}
	}
	return a, facts
}

// most is what an instance could hold of the devices that it uses: all but what processes
// of others hold there.
func most(s *Sample, list []*holding, inst string) (bytes uint64) {
	for i := range s.Devices {
		d := &s.Devices[i]
		used, others := false, uint64(0)
		for _, h := range list {
			switch {
			case h.device != d || h.bytes == nil:
			case h.member != nil && h.member.inst == inst:
				used = used || *h.bytes > 0
			default:
				others += *h.bytes
			}
		}
		if used && d.Total != nil {
			bytes += *d.Total - min(*d.Total, others)
		}
	}
	return bytes
}

// usages are what an instance's named processes hold, with those that they started,
// nil where that is not seen; why is what keeps it from being told.
func (o *Owners) usages(s *Sample, list []*holding, c *Claim, claims []Claim) (all []usage, why string) {
	last := o.last[c.Instance]
	if last == nil {
		last = &standingOf{}
		o.last[c.Instance] = last
	}
	var own []*member
	for _, m := range o.members {
		if m.inst == c.Instance {
			own = append(own, m)
		}
	}
	if why = o.unknown(s, list, c, own, last); why != "" {
		return nil, why
	}
	sums := map[usage]uint64{} // by process and GPU
	var held uint64
	for _, h := range list {
		if h.member != nil && h.member.inst == c.Instance {
			sums[usage{pid: h.member.pid, gpu: h.device.UUID}] += *h.bytes
			held += *h.bytes
		}
	}
	for _, u := range last.said { // what is held no more
		if u.gpu != nowhere && slices.ContainsFunc(own, func(m *member) bool { return m.pid == u.pid }) {
			sums[usage{pid: u.pid, gpu: u.gpu}] += 0
		}
	}
	for _, m := range own {
		if !slices.ContainsFunc(slices.Collect(maps.Keys(sums)), func(u usage) bool { return u.pid == m.pid }) {
			sums[usage{pid: m.pid, gpu: nowhere}] = 0
		}
	}
	for u, bytes := range sums {
		u.bytes = bytes
		all = append(all, u)
		if clash(u, c, claims) {
			return nil, fmt.Sprintf("another instance names process %d too", u.pid)
		}
	}
	first := inOrder(all)
	if why = last.asleep(c, held); why == "" && held >= c.Bytes && first < c.Bytes {
		why = "a process of it uses several GPUs, and the judge would see one before the others"
	}
	return all, why
}

// inOrder puts first what each process holds on the GPU where it holds most, and sums
// that up: the judge adds up what it has been told so far, as soon as it has been told
// something of each process.
func inOrder(all []usage) (first uint64) {
	slices.SortFunc(all, func(a, b usage) int {
		return cmp.Or(cmp.Compare(a.pid, b.pid), cmp.Compare(b.bytes, a.bytes), cmp.Compare(a.gpu, b.gpu))
	})
	rank := map[usage]int{}
	for i, u := range all {
		if i > 0 && all[i-1].pid == u.pid {
			rank[u] = rank[all[i-1]] + 1
		} else {
			first += u.bytes
		}
	}
	slices.SortStableFunc(all, func(a, b usage) int { return cmp.Compare(rank[a], rank[b]) })
	return first
}

// unknown says why an instance may hold more than is seen; empty: it does not.
func (o *Owners) unknown(s *Sample, list []*holding, c *Claim, own []*member, last *standingOf) string {
	gone := 0
	for _, m := range own {
		if m.gone {
			gone++
		}
	}
	switch {
	case len(own) < max(1, len(c.PIDs)):
		return "its processes cannot be told"
	case gone > 0 && !c.Live:
		return "its processes have ended"
	case s.Begun <= c.Since:
		return "it opened a pool after the sample"
	}
	for i := range s.Devices {
		if d := &s.Devices[i]; !d.Whole() {
			return "not all is known of " + cmp.Or(d.UUID, "a GPU")
		}
	}
	for _, uuid := range last.devices {
		if !slices.ContainsFunc(s.Devices, func(d Device) bool { return d.UUID == uuid }) {
			return "it used " + uuid + ", which is not there"
		}
	}
	last.devices = last.devices[:0]
	for _, h := range list {
		switch {
		case h.proc == nil:
			return "the driver lists a process that cannot be found"
		case len(h.kin) > 1 && slices.Contains(h.kin, c.Instance):
			return "it shares a process with another instance"
		case h.class == Allowed && path.Base(h.proc.exe) == mpsServer:
			return "an MPS server may hold memory for it"
		case h.member != nil && h.member.inst == c.Instance && !slices.Contains(last.devices, h.device.UUID):
			last.devices = append(last.devices, h.device.UUID)
		}
	}
	return ""
}

// asleep says that an instance which holds less than it claims has used none of it
// meanwhile: a pool that sleeps has given its memory back, and only its use
// contradicts that. Three samples show it: one that is short, one by which the pool
// was used, and one that is still short.
func (l *standingOf) asleep(c *Claim, held uint64) string {
	if held >= c.Bytes {
		l.short, l.active = false, false
		return ""
	}
	if !l.short {
		l.short, l.used = true, c.Used
	}
	before := l.active
	if l.active = c.Used != l.used; before {
		return ""
	}
	return "it holds less than it claims, and is not known to use it: it sleeps, or has just begun"
}

// clash reports whether another instance names the same number on the same GPU: the
// judge could not tell them apart.
func clash(u usage, c *Claim, claims []Claim) bool {
	return slices.ContainsFunc(claims, func(o Claim) bool { return o.Instance != c.Instance && slices.Contains(o.wanted(), u.pid) })
}

// say makes facts of what has changed, or was last said long ago.
func (o *Owners) say(s *Sample, c *Claim, usages []usage) (facts []*lifecycle.Fact) {
	last := o.last[c.Instance]
	if slices.Equal(usages, last.said) && last.since == c.Since && s.Begun-last.saidAt < restate.Nanoseconds() {
		return nil
	}
	last.said, last.saidAt, last.since = usages, s.Begun, c.Since
	for _, u := range usages {
		facts = append(facts, o.fact(s, c.Instance, u))
	}
	return facts
}

func (o *Owners) fact(s *Sample, inst string, u usage) *lifecycle.Fact {
	f := &lifecycle.Fact{
		Node: o.cfg.Node, Inst: inst, Src: lifecycle.NVML, Ev: lifecycle.VRAMUsage, Bytes: u.bytes,
		VRAM: &lifecycle.Usage{GPU: u.gpu, PID: u.pid},
	}
	for i := range s.Devices {
		if d := &s.Devices[i]; d.UUID == u.gpu && d.Total != nil {
			f.VRAM.TotalBytes = lifecycle.Some(*d.Total)
		}
	}
	return f
}

// strangers are facts about processes of no engine on a GPU that an engine uses, once
// they were seen twice: one that has just begun may be about to end.
func (o *Owners) strangers(s *Sample, list []*holding, claims []Claim) (facts []*lifecycle.Fact) {
	now := map[foreignKey]bool{}
	for _, h := range list {
		if h.class != Foreign {
			continue
		}
		key := foreignKey{h.device.UUID, h.proc.pid, h.proc.start}
		said, before := o.foreign[key]
		now[key] = said
		beside := o.beside(h.device)
		taken := slices.ContainsFunc(claims, func(c Claim) bool { return slices.Contains(c.PIDs, int64(h.proc.pid)) })
		if !before || said || h.bytes == nil || beside == "" || taken {
			continue
		}
		now[key] = true
		facts = append(facts, o.fact(s, beside, usage{int64(h.proc.pid), h.device.UUID, *h.bytes}))
	}
	o.foreign = now
	return facts
}

// beside is the first instance with named processes that was said to use the device.
func (o *Owners) beside(device *Device) (inst string) {
	for name, l := range o.last {
		named := slices.ContainsFunc(o.members, func(m *member) bool { return m.inst == name && m.named })
		on := slices.ContainsFunc(l.said, func(u usage) bool { return u.gpu == device.UUID && u.bytes > 0 })
		if named && on && (inst == "" || name < inst) {
			inst = name
		}
	}
	return inst
}
