package proven

import (
	"cmp"
	"fmt"
	"net"
	"slices"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/sidecar/probe"
	"github.com/kvwitness/kvwitness/sidecar/source/verbs"
)

// verbs takes in a record of the verbs probe.
func (s *State) verbs(b []byte) {
	record, err := verbs.Decode(b)
	if err != nil {
		s.stats.Malformed++
		return
	}
	switch r := record.(type) {
	case verbs.Context:
		s.paths.Opened(r.PID, r.Context, r.Time)
		s.review(r.PID)
	case verbs.Extended:
		s.paths.Opened(r.PID, r.Context, r.Time)
		s.review(r.PID)
	case verbs.QP:
		if c := s.paths.Modified(&r); c != nil {
			s.placeable(c.Process, c.QP)
		}
		s.review(r.PID)
	case verbs.About:
		s.about(&r)
	case verbs.Region:
		if s.paths.Register(&r) {
			s.memory(&r, lifecycle.RegionRegistered)
		}
	case verbs.Posted:
		s.posted(&r)
	case verbs.Completed:
		s.completions(&r)
	}
}

// attached takes in whether what a process posts is seen.
func (s *State) attached(a *probe.Attached) {
	why := ""
	if !a.Seen {
		why = "not all that it posts is seen: " + a.Reason
		s.problem(fmt.Sprintf("process %d: %s", a.PID, why))
	}
	s.paths.Attached(a.PID, a.Context, a.T, why, a.Ends)
	s.review(a.PID)
}

// review withdraws the sight of what a process posts, if there is a reason now.
func (s *State) review(process uint32) {
	why := s.paths.Blind(process)
	if why == "" {
		return
	}
	for _, i := range s.sorted() {
		for _, name := range peers(i) {
			if l := i.links[name]; l.poster == process && l.ways[overRDMA].covered {
				s.withdraw(l, overRDMA, why)
			}
		}
	}
}

// placeable: a queue pair is connected anew, or is no more.
func (s *State) placeable(process uint32, qp uint64) {
	for _, i := range s.insts {
		for _, l := range i.links {
			if l.from.process == process || l.to.process == process {
				delete(l.unplaced, qp)
			}
		}
	}
}

func (s *State) about(r *verbs.About) {
	switch r.What {
	case verbs.KindQPGone:
		c := s.paths.Destroyed(r.PID, r.ID)
		s.placeable(r.PID, r.ID)
		if c != nil {
			s.severed(c)
		}
	case verbs.KindContextGone:
		s.paths.Closed(r.PID, r.ID)
	case verbs.KindRegionGone:
		if g, last := s.paths.Deregister(r.PID, r.ID); last {
			s.memory(&g, lifecycle.RegionDeregistered)
		}
	case verbs.KindBypass:
		s.paths.Bypassed(r.PID)
		s.review(r.PID)
	}
}

// severed says that a writer is gone from an instance once the last queue pair that
// led there is destroyed.
func (s *State) severed(c *verbs.Pair) {
	for _, from := range s.byProcess[c.Process] {
		for _, to := range s.sorted() {
			l := to.links[from.name]
			if l == nil || l.poster != c.Process || !l.ways[overRDMA].used || len(l.unplaced) > 0 || s.matches(l, c) != leadsThere {
				continue
			}
			l.severed = true
			s.gone(l)
		}
	}
}

// gone says that a severed writer is gone, unless it may try again or has another queue
// pair.
func (s *State) gone(l *link) {
	if !l.severed || len(l.open) > 0 {
		return
	}
	l.severed = false
	left := false
	s.paths.Of(l.poster, func(o *verbs.Pair) { left = left || s.matches(l, o) != leadsElsewhere })
	if !left {
		s.emit(&lifecycle.Fact{Inst: l.to.name, Src: lifecycle.RDMA, Ev: lifecycle.PeerGone, Peer: l.from.name})
	}
}

// over: a peer has nothing more to write for a room.
func (s *State) over(to *instance, room string, from *instance) {
	if l := to.links[from.name]; l != nil {
		delete(l.open, room)
		s.gone(l)
	}
}

// memoryOf tells of what an instance's process had registered before it was known
// whose it is.
func (s *State) memoryOf(i *instance) {
	s.paths.Regions(i.process, func(r verbs.Region) { s.emit(memoryFact(i, &r, lifecycle.RegionRegistered)) })
}

func (s *State) memory(r *verbs.Region, ev lifecycle.Ev) {
	for _, i := range s.byProcess[r.PID] {
		s.emit(memoryFact(i, r, ev))
	}
}

func memoryFact(i *instance, r *verbs.Region, ev lifecycle.Ev) *lifecycle.Fact {
	f := &lifecycle.Fact{Inst: i.name, Src: lifecycle.RDMA, Ev: ev, Base: r.Addr, Bytes: min(r.Bytes, lifecycle.MaxBytes), RKey: lifecycle.Some(uint64(r.RKey))}
	if r.DMABuf { // what has no file descriptor may be either
		f.Memory = lifecycle.VRAM
	}
	return f
}

// posted takes in what a process handed to a queue pair.
func (s *State) posted(p *verbs.Posted) {
	s.stats.Posted += uint64(p.Requests)
	c := s.paths.Find(p.PID, p.QP, p.Number)
	if c != nil {
		s.paths.Post(c, p)
	}
	for i := range p.Extents {
		s.extent(&moving{pid: p.PID, qp: p.QP, number: p.Number, pair: c, Extent: p.Extents[i], outcome: lifecycle.Posted})
	}
	if p.Flags != 0 {
		s.cut(p.PID, c, "requests were posted that could not be followed to their end")
	}
}

func (s *State) completions(m *verbs.Completed) {
	s.paths.Complete(m, func(c *verbs.Pair, e verbs.Extent, ok bool) {
		how := lifecycle.Errored
		if ok {
			how = lifecycle.OK
		}
		s.extent(&moving{pid: c.Process, qp: c.QP, number: c.Number, pair: c, Extent: e, outcome: how})
	}, func(c *verbs.Pair, why string) { s.cut(c.Process, c, why) })
	if m.Flags != 0 {
		s.cut(m.PID, nil, "completions could not be read")
	}
	s.review(m.PID)
}

// cut ends the sight of what may have come over a queue pair; nil: over any of the
// process.
func (s *State) cut(process uint32, c *verbs.Pair, why string) {
	for _, i := range s.sorted() {
		for _, name := range peers(i) {
			if l := i.links[name]; l.poster == process && l.ways[overRDMA].covered && (c == nil || s.matches(l, c) != leadsElsewhere) {
				s.withdraw(l, overRDMA, why)
			}
		}
	}
}

// moving is bytes that a process handed to a queue pair, or that are over.
type moving struct {
	pid     uint32
	qp      uint64
	number  uint32
	pair    *verbs.Pair // nil: it is not known where it leads
	outcome lifecycle.Outcome
	verbs.Extent
}

// extent finds out into whose memory bytes go: by where their queue pair leads and
// by their address, never by the address alone.
func (s *State) extent(m *moving) {
	var found []*link
	var doubtful []*link
	for _, own := range s.byProcess[m.pid] {
		ways := own.out // it writes to others,
		if m.Op == verbs.OpRead {
			ways = own.links // or reads from them
		}
		for _, l := range ways {
			if !l.to.within(m.into(), m.Bytes, func(uint64, uint64) {}) {
				continue
			}
			switch s.matches(l, m.pair) {
			case leadsThere:
				found = append(found, l)
			case mayLeadThere:
				doubtful = append(doubtful, l)
			case leadsElsewhere:
			}
		}
	}
	slices.SortFunc(found, byNames)
	slices.SortFunc(doubtful, byNames)
	switch {
	case len(found) == 1:
		s.moves(m, found[0])
	case len(found) > 1:
		for _, l := range found {
			s.unplaced(m, l, "it leads to several instances that have such addresses")
		}
	default:
		for _, l := range doubtful {
			s.unplaced(m, l, s.why(l, m.pair))
		}
	}
}

func byNames(a, b *link) int {
	return cmp.Or(cmp.Compare(a.to.name, b.to.name), cmp.Compare(a.from.name, b.from.name))
}

// into is the address at which the bytes arrive, in the memory of who receives them.
func (m *moving) into() uint64 {
	if m.Op == verbs.OpRead {
		return m.Local
	}
	return m.Remote
}

func (m *moving) outOf() uint64 {
	if m.Op == verbs.OpRead {
		return m.Remote
	}
	return m.Local
}

// moves says that bytes go over a link, and so that it is seen.
func (s *State) moves(m *moving, l *link) {
	s.stats.Placed++
	delete(l.unplaced, m.qp)
	l.poster = m.pid
	op := lifecycle.Write
	if m.Op == verbs.OpRead {
		op = lifecycle.Read
	}
	l.to.within(m.into(), m.Bytes, func(lo, hi uint64) {
		s.emit(&lifecycle.Fact{
			Inst: l.to.name, Src: lifecycle.RDMA, Ev: lifecycle.BytesMoved, Addr: lo, Bytes: min(hi-lo, lifecycle.MaxBytes), From: l.from.name,
			FromAddr: lifecycle.Some(m.outOf() + (lo - m.into())), Op: op, RKey: lifecycle.Some(uint64(m.RKey)), QP: lifecycle.Some(uint64(m.number)),
			Outcome: m.outcome,
		})
	})
	l.ways[overRDMA].used = true
	if l.ways[overTCP].covered {
		s.withdraw(l, overTCP, bothWays)
	}
	if l.due(overRDMA, s.now) && m.outcome != lifecycle.Errored {
		s.declare(l, overRDMA, s.againstRDMA(l))
	}
}

// unplaced: bytes may have gone over a link, or not.
func (s *State) unplaced(m *moving, l *link, why string) {
	s.stats.Unplaced++
	if len(l.unplaced) < MaxFlows {
		l.unplaced[m.qp] = why
	}
	l.poster = m.pid
	s.withdraw(l, overRDMA, why)
}

// againstRDMA is why the sight of what comes over a link is not complete.
func (s *State) againstRDMA(l *link) string {
	switch {
	case l.to.staged:
		return "staged: what arrives goes through a buffer and is scattered by a kernel"
	case l.ways[overTCP].used:
		return bothWays
	}
	for _, why := range l.unplaced {
		return why
	}
	return s.paths.Blind(l.poster)
}

// leading is whether a queue pair leads to the other end of a link.
type leading uint8

const (
	leadsElsewhere leading = iota
	mayLeadThere
	leadsThere
)

// far is the instance at the other end of the link from a process.
func (l *link) far(process uint32) *instance {
	if l.from.process == process {
		return l.to
	}
	return l.from
}

// matches decides whether a queue pair leads to the other end of a link.
func (s *State) matches(l *link, c *verbs.Pair) leading {
	pid, addr, why := s.paths.Leads(c)
	if why != "" {
		return mayLeadThere
	}
	far := l.far(c.Process)
	if pid != 0 {
		switch far.process {
		case pid:
			return leadsThere
		case 0:
			return mayLeadThere
		}
		return leadsElsewhere
	}
	if far.process != 0 {
		return leadsElsewhere // that is of this node
	}
	if addr == far.host || far == l.to && addr == l.at {
		return leadsThere
	}
	return mayLeadThere // a host may have several addresses
}

// why is the reason of a queue pair that may lead to the other end of a link.
func (s *State) why(l *link, c *verbs.Pair) string {
	_, addr, why := s.paths.Leads(c)
	if why != "" {
		return why
	}
	host, _, _ := net.SplitHostPort(l.far(c.Process).name)
	return fmt.Sprintf("a queue pair leads to %s, which is not known to be of %s", addr, host)
}
