package proven

import (
	"fmt"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/sidecar/probe"
	"github.com/kvwitness/kvwitness/sidecar/source/cuda"
	"github.com/kvwitness/kvwitness/sidecar/source/verbs"
)

// unknownGPU stands for the device of memory: the driver's calls do not say it.
const unknownGPU = "unknown"

// memoryAt is memory that a process registered.
type memoryAt struct {
	process uint32
	base    uint64
}

// cuda takes in a call of the CUDA driver.
func (s *State) cuda(b []byte) {
	r, err := cuda.Parse(b)
	if err != nil {
		s.stats.Malformed++
		return
	}
	if r.Copies() {
		s.copy(&r)
		return
	}
	s.stats.CUDACalls++
	if o := s.books.Take(&r); o != nil {
		s.opened(o)
	}
}

// driverAttached takes in whether all is seen that a process asks of the CUDA driver.
func (s *State) driverAttached(a *probe.Attached) {
	why := ""
	if !a.Seen {
		why = "not all that it asks of the CUDA driver is seen: " + a.Reason
		s.problem(fmt.Sprintf("process %d: %s", a.PID, why))
	}
	s.books.Attached(a.PID, why)
	s.paths.Regions(a.PID, func(r verbs.Region) { s.given(&r) })
	for _, i := range s.byProcess[a.PID] {
		s.poolsGiven(i)
	}
}

// lossMarks is for how many marks a loss of calls of the CUDA driver is of every process
// that is met: it is told before the processes are that it may be of.
const lossMarks = 4

// trust ends that, mark by mark.
func (s *State) trust() {
	if s.distrust--; s.distrust == 0 {
		s.books.Trust()
	}
	s.distrust = max(s.distrust, 0)
}

// given looks, once, whether memory that was just registered is of what the driver gave
// the process; what the driver gives later, or takes back, says nothing of that.
func (s *State) given(r *verbs.Region) {
	at := memoryAt{r.PID, r.Addr}
	_, known := s.looked[at]
	if known || !r.DMABuf || !s.allocates(r.PID) || len(s.looked) >= MaxRooms {
		return
	}
	s.looked[at] = s.books.From(r.PID, r.Addr)
	for _, i := range s.byProcess[r.PID] {
		s.emit(givenFact(i, r.Addr, s.looked[at]))
	}
}

// allocates reports whether it is known of a process what memory it has of the driver,
// and it has some: its calls are seen.
func (s *State) allocates(process uint32) bool {
	a := s.books.Account(process)
	return a.Why == "" && a.Allocated > 0
}

func givenFact(i *instance, base, bytes uint64) *lifecycle.Fact {
	return &lifecycle.Fact{
		Inst: i.name, Src: lifecycle.CUDA, Ev: lifecycle.RegionRegistered, Base: base, Bytes: min(bytes, lifecycle.MaxBytes), Memory: lifecycle.VRAM,
	}
}

// poolsGiven looks whether an instance's pools are of what the driver gave its process.
// A pool of which no region is, lies elsewhere: in host memory.
func (s *State) poolsGiven(i *instance) {
	if !i.opened || i.given || !s.allocates(i.process) {
		return
	}
	i.given = true
	for n := range i.pools {
		p := &i.pools[n]
		if p.guessed && !s.cfg.Followed(i.name) {
			continue // it may be smaller
		}
		var found []*lifecycle.Fact
		some := false
		for _, r := range p.Regions {
			bytes := s.books.From(i.process, r.Base)
			some = some || bytes > 0
			found = append(found, givenFact(i, r.Base, bytes))
		}
		for _, f := range found {
			if some {
				s.emit(f)
			}
		}
	}
}

// opened says that another process has memory of an instance open, unless it is one that
// is watched, or of the instance's family.
func (s *State) opened(o *cuda.Opened) {
	if s.watched[o.By] || s.cfg.Stranger != nil && !s.cfg.Stranger(o.By, o.Owner) {
		return
	}
	for _, i := range s.byProcess[o.Owner] {
		s.emit(&lifecycle.Fact{
			Inst: i.name, Src: lifecycle.CUDA, Ev: lifecycle.VRAMUsage, Bytes: min(o.Bytes, lifecycle.MaxBytes),
			VRAM: &lifecycle.Usage{GPU: unknownGPU, PID: int64(o.By)},
		})
	}
}

// Holding is what is known of the memory that a process has of the CUDA driver.
type Holding struct {
	Process   uint32
	Instances []string // that it is
	cuda.Account
}

// Holdings are those of all processes that called the driver.
func (s *State) Holdings() (all []Holding) {
	s.books.Each(func(pid uint32) {
		a := s.books.Account(pid)
		if a.Calls == 0 {
			return
		}
		h := Holding{Process: pid, Account: a}
		for _, i := range s.byProcess[pid] {
			h.Instances = append(h.Instances, i.name)
		}
		all = append(all, h)
	})
	return all
}
