package nvml

import (
	"slices"
	"time"
)

// Claim is what is known of an instance of this node without the driver.
type Claim struct {
	Instance string
	PIDs     []int64 // that it names, in its own namespace
	Bytes    uint64  // that it says its pools take, or that it registered; 0: not said
	Since    int64   // ns, when it last said so
	Serving  int     // the process at the other end of its socket; 0: not known
	Live     bool    // its stream is followed
	Used     uint64  // grows whenever it says that pages were used
}

// searchEvery is how often all processes are looked through for one that is not found,
// unless an instance has said something new.
const searchEvery = 10 * time.Second

// member is a process that an instance names.
type member struct {
	inst  string
	pid   int64 // as the instance has it
	named bool  // by the instance; else it is known by its socket alone
	*process
	gone  bool
	since int64 // of the claim, when it was found
}

// join finds the members of the instances: those found before as long as they live.
func (o *Owners) join(r *procs, claims []Claim, listed map[int]bool, now int64) {
	var kept []*member
	search := false
	for i := range claims {
		c := &claims[i]
		for _, want := range c.wanted() {
			at := slices.IndexFunc(o.members, func(m *member) bool { return m.inst == c.Instance && m.pid == want && m.named == (len(c.PIDs) > 0) })
			if at < 0 {
				search = true
				continue
			}
			m := o.members[at]
			p := r.look(m.process.pid)
			if m.gone = p == nil || p.start != m.start; !m.gone {
				m.process = p
			} else if m.since != c.Since { // it has begun anew
				search = true
				continue
			}
			kept = append(kept, m)
		}
	}
	o.members = kept
	fresh := slices.ContainsFunc(claims, func(c Claim) bool { return c.Since > o.searched })
	if !search || !fresh && o.searched != 0 && now-o.searched < searchEvery.Nanoseconds() {
		return
	}
	all, err := r.all()
	if err != nil {
		return
	}
	o.searched = now
	for i := range claims {
		o.find(r, &claims[i], all, listed)
	}
}

// wanted are the numbers of an instance's processes. One that names none is known by
// who serves its socket.
func (c *Claim) wanted() []int64 {
	if len(c.PIDs) == 0 && c.Serving > 0 {
		return []int64{int64(c.Serving)}
	}
	return c.PIDs
}

// find looks for the processes that an instance names.
func (o *Owners) find(r *procs, c *Claim, all []*process, listed map[int]bool) {
	for _, want := range c.wanted() {
		if slices.ContainsFunc(o.members, func(m *member) bool { return m.inst == c.Instance && m.pid == want }) {
			continue
		}
		var p *process
		if len(c.PIDs) == 0 {
			p = r.look(c.Serving)
		} else {
			p = o.only(r, c, want, all, listed)
		}
		if p != nil && !p.kernel {
			o.members = append(o.members, &member{inst: c.Instance, pid: want, named: len(c.PIDs) > 0, process: p, since: c.Since})
		}
	}
}

// only is the one process that may be meant by a number; nil: none, or several. With
// the process that serves the instance's socket it must share a family; else it, or
// one that it started, must use a GPU, and no other have the number.
func (o *Owners) only(r *procs, c *Claim, want int64, all []*process, listed map[int]bool) (found *process) {
	server := r.look(c.Serving)
	if c.Serving == 0 {
		server = nil
	}
	for _, p := range all {
		if p.kernel || p.inner != want || server != nil && !r.related(p, server) {
			continue
		}
		if found != nil {
			return nil
		}
		found = p
	}
	if found == nil || server != nil {
		return found
	}
	for pid := range listed {
		if slices.Contains(r.line(r.look(pid)), found) {
			return found
		}
	}
	return nil
}

// related reports whether one started the other, or the same launcher both.
func (r *procs) related(a, b *process) bool {
	return r.launcher(a) == r.launcher(b) || slices.Contains(r.line(a), b) || slices.Contains(r.line(b), a)
}
