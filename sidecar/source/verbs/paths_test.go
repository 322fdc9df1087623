package verbs

import (
	"net/netip"
	"strings"
	"testing"
)

func opened(ps *Paths, pid uint32, context uint64) {
	ps.Opened(pid, context, 1)
	ps.Attached(pid, context, 1, "", true)
}

func connect(ps *Paths, pid uint32, context, qp uint64, number, to uint32, at string) *Pair {
	q := QP{QP: qp, Number: number, Mask: AttrState | AttrAV | AttrDestQP, State: 2, DestQP: to, GlobalGID: true}
	q.PID, q.Context.Context, q.DestGID, q.Time = pid, context, netip.MustParseAddr(at).As16(), 2
	return ps.Modified(&q)
}

// Promise: a queue pair of this node leads to the process that has the one which
// leads back, still when that is destroyed; one whose number is another's now, or
// that was reset, leads nowhere.
func TestAQueuePairLeadsToWhoLeadsBack(t *testing.T) {
	ps := NewPaths(nil)
	a, b := connect(ps, 1, 10, 100, 17, 18, "127.0.0.1"), connect(ps, 2, 20, 200, 18, 17, "127.0.0.1")
	connect(ps, 3, 30, 300, 18, 99, "127.0.0.1") // answers to others
	for range 2 {
		if pid, _, why := ps.Leads(a); pid != 2 || why != "" {
			t.Fatalf("it leads to %d (%s)", pid, why)
		}
		ps.Destroyed(2, b.QP)
	}
	if ps.Find(1, 100, 17) != a || ps.Find(1, 100, 16) != nil || ps.Find(1, 101, 17) != nil {
		t.Error("another is found")
	}
	reset := QP{QP: 100, Number: 17, Mask: AttrState}
	reset.PID, reset.Context.Context = 1, 10
	ps.Modified(&reset)
	if _, _, why := ps.Leads(a); ps.Find(1, 100, 17) != nil || why == "" {
		t.Error("it leads somewhere after a reset")
	}
}

// Promise: what is remembered of a hostile process is bounded, and it is blind
// beyond that, with the reason; what ends is forgotten.
func TestWhatIsRememberedOfAProcessIsBounded(t *testing.T) {
	ps := NewPaths(nil)
	for i := range uint64(MaxContexts + 5) {
		opened(ps, 1, i+1)
	}
	if p := ps.processes[1]; len(p.contexts) != MaxContexts || !strings.Contains(ps.Blind(1), "contexts") {
		t.Errorf("%d contexts; %s", len(p.contexts), ps.Blind(1))
	}
	opened(ps, 2, 1)
	if why := ps.Blind(2); why != "" {
		t.Error(why)
	}
	for i := range uint64(MaxPairs + 5) {
		connect(ps, 2, 1, i+1, uint32(i), 1, "10.0.0.1")
		ps.Register(&Region{Head: Head{PID: 2}, MR: i, Addr: 1, Bytes: 1})
	}
	if p := ps.processes[2]; len(p.pairs) != MaxPairs || len(p.numbered) != MaxPairs || len(p.regions) > MaxRegions || !strings.Contains(ps.Blind(2), "queue pairs") {
		t.Errorf("%d pairs, %d regions; %s", len(p.pairs), len(p.regions), ps.Blind(2))
	}
	for i := range uint32(MaxProcesses + 5) {
		opened(ps, 10+i, 1)
	}
	if len(ps.processes) != MaxProcesses || ps.Forgotten() == 0 {
		t.Errorf("%d processes, %d forgotten", len(ps.processes), ps.Forgotten())
	}
	for i := range uint32(MaxProcesses + 15) {
		ps.Ended(i)
	}
	if len(ps.processes)+len(ps.numbers) != 0 {
		t.Errorf("%d processes, %d numbers are left", len(ps.processes), len(ps.numbers))
	}
}

// Promise: more outstanding requests than are remembered are not told as done, and
// hold no memory.
func TestOutstandingRequestsAreBounded(t *testing.T) {
	ps := NewPaths(nil)
	opened(ps, 1, 10)
	c := connect(ps, 1, 10, 100, 17, 18, "10.0.0.1")
	for range MaxOutstanding + 5 {
		ps.Post(c, &Posted{Requests: 1, Extents: []Extent{{Bytes: 1, Requests: 1, Signaled: true}}})
	}
	m := &Completed{Context: 10, All: []Completion{{Number: 17, Opcode: wcWrite}}}
	m.PID = 1
	ps.Complete(m, func(*Pair, Extent, bool) { t.Error("one is told as done") }, func(_ *Pair, why string) { t.Error(why) })
	if len(c.requests.waiting) != 0 {
		t.Errorf("%d are remembered", len(c.requests.waiting))
	}
}
