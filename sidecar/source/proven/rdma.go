package proven

import (
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/sidecar/probe"
	"github.com/kvwitness/kvwitness/sidecar/source/ucp"
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
			s.given(&r)
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
	if a.UCX {
		s.ucx.Attached(a.PID, why, a.Ends)
	} else {
		s.paths.Attached(a.PID, a.Context, a.T, why, a.Ends)
	}
	s.review(a.PID)
}

// review withdraws the sight of what a process posts, if there is a reason now.
func (s *State) review(process uint32) {
	why := s.unseen(process)
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

// unseen is why what a process posts is not all seen, by itself or by UCX; "": it is.
func (s *State) unseen(process uint32) string {
	if why := s.ucx.Blind(process); why != "" || s.ucx.Uses(process) && !s.paths.Knows(process) {
		return why // it need not have a device
	}
	return s.paths.Blind(process)
}

// placeable: a queue pair or an endpoint is connected anew, or is no more.
func (s *State) placeable(process uint32, channel uint64) {
	for _, i := range s.insts {
		for _, l := range i.links {
			if l.from.process == process || l.to.process == process {
				delete(l.unplaced, channel)
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
			delete(s.looked, memoryAt{g.PID, g.Addr})
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
			if l == nil || l.poster != c.Process || !l.ways[overRDMA].used || len(l.unplaced) > 0 || matches(l, s.ofPair(c)) != leadsThere {
				continue
			}
			l.severed = true
			s.gone(l)
		}
	}
}

// gone says that a severed writer is gone, unless it may try again or has another queue
// pair, or an endpoint of UCX.
func (s *State) gone(l *link) {
	if !l.severed || len(l.open) > 0 {
		return
	}
	l.severed = false
	left := false
	s.paths.Of(l.poster, func(o *verbs.Pair) { left = left || matches(l, s.ofPair(o)) != leadsElsewhere })
	s.ucx.Of(l.poster, func(o *ucp.Endpoint) { left = left || matches(l, s.ofEndpoint(o)) != leadsElsewhere })
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
	s.paths.Regions(i.process, func(r verbs.Region) {
		s.emit(memoryFact(i, &r, lifecycle.RegionRegistered))
		if bytes, known := s.looked[memoryAt{r.PID, r.Addr}]; known {
			s.emit(givenFact(i, r.Addr, bytes))
		}
	})
	s.poolsGiven(i)
}

func (s *State) memory(r *verbs.Region, ev lifecycle.Ev) {
	for _, i := range s.byProcess[r.PID] {
		s.emit(memoryFact(i, r, ev))
	}
}

func memoryFact(i *instance, r *verbs.Region, ev lifecycle.Ev) *lifecycle.Fact {
	f := &lifecycle.Fact{Inst: i.name, Src: lifecycle.RDMA, Ev: ev, Base: r.Addr, Bytes: min(r.Bytes, lifecycle.MaxBytes)}
	if r.RKey != 0 { // UCX has one for each device
		f.RKey = lifecycle.Some(uint64(r.RKey))
	}
	if r.DMABuf { // what has no file descriptor may be either
		f.Memory = lifecycle.VRAM
	}
	return f
}

// posted takes in what a process handed to a queue pair.
func (s *State) posted(p *verbs.Posted) {
	s.stats.Posted += uint64(p.Requests)
	on := channel{pid: p.PID, id: p.QP}
	c := s.paths.Find(p.PID, p.QP, p.Number)
	on.to, on.at, on.why = s.paths.Leads(c)
	if c != nil {
		s.paths.Post(c, p)
	}
	for i := range p.Extents {
		s.extent(&moving{channel: on, qp: lifecycle.Some(uint64(p.Number)), Extent: p.Extents[i], outcome: lifecycle.Posted})
	}
	if p.Flags != 0 {
		s.cut(p.PID, &on, "requests were posted that could not be followed to their end")
	}
}

func (s *State) completions(m *verbs.Completed) {
	s.paths.Complete(m, func(c *verbs.Pair, e verbs.Extent, ok bool) {
		how := lifecycle.Errored
		if ok {
			how = lifecycle.OK
		}
		s.extent(&moving{channel: s.ofPair(c), qp: lifecycle.Some(uint64(c.Number)), Extent: e, outcome: how})
	}, func(c *verbs.Pair, why string) {
		on := s.ofPair(c)
		s.cut(c.Process, &on, why)
	})
	if m.Flags != 0 {
		s.cut(m.PID, nil, "completions could not be read")
	}
	s.review(m.PID)
}

// channel is what a process hands bytes to: a queue pair, or an endpoint of UCX.
type channel struct {
	pid uint32     // whose
	id  uint64     // its address there
	to  uint32     // the process of this node that it leads to; 0: none
	at  netip.Addr // else the address
	why string     // else why that is not known
}

func (s *State) ofPair(c *verbs.Pair) channel {
	on := channel{pid: c.Process, id: c.QP}
	on.to, on.at, on.why = s.paths.Leads(c)
	return on
}

// cut ends the sight of what may have come over a channel; nil: over any of the
// process.
func (s *State) cut(process uint32, on *channel, why string) {
	for _, i := range s.sorted() {
		for _, name := range peers(i) {
			if l := i.links[name]; l.poster == process && l.ways[overRDMA].covered && (on == nil || matches(l, *on) != leadsElsewhere) {
				s.withdraw(l, overRDMA, why)
			}
		}
	}
}

// moving is bytes that a process handed to a channel, or that are over.
type moving struct {
	channel
	qp      lifecycle.Opt[uint64]
	outcome lifecycle.Outcome
	verbs.Extent
}

// extent finds out into whose memory bytes go: by where their channel leads and
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
			switch matches(l, m.channel) {
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
			s.unplaced(m, l, why(l, m.channel))
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
	delete(l.unplaced, m.id)
	l.poster = m.pid
	op := lifecycle.Write
	if m.Op == verbs.OpRead {
		op = lifecycle.Read
	}
	l.to.within(m.into(), m.Bytes, func(lo, hi uint64) {
		f := &lifecycle.Fact{
			Inst: l.to.name, Src: lifecycle.RDMA, Ev: lifecycle.BytesMoved, Addr: lo, Bytes: min(hi-lo, lifecycle.MaxBytes), From: l.from.name,
			FromAddr: lifecycle.Some(m.outOf() + (lo - m.into())), Op: op, QP: m.qp, Outcome: m.outcome,
		}
		if m.qp.Has {
			f.RKey = lifecycle.Some(uint64(m.RKey))
		}
		s.emit(f)
	})
	l.ways[overRDMA].used = true
	if l.ways[overTCP].covered {
		s.withdraw(l, overTCP, bothWays)
	}
	if s.due(l, overRDMA) && m.outcome != lifecycle.Errored {
		s.declare(l, overRDMA, s.againstRDMA(l))
	}
}

// unplaced: bytes may have gone over a link, or not.
func (s *State) unplaced(m *moving, l *link, why string) {
	s.stats.Unplaced++
	if len(l.unplaced) < MaxFlows {
		l.unplaced[m.id] = why
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
	return s.unseen(l.poster)
}

// leading is whether a channel leads to the other end of a link.
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

// matches decides whether a channel leads to the other end of a link.
func matches(l *link, on channel) leading {
	if on.why != "" {
		return mayLeadThere
	}
	far := l.far(on.pid)
	if on.to != 0 {
		switch far.process {
		case on.to:
			return leadsThere
		case 0:
			return mayLeadThere
		}
		return leadsElsewhere
	}
	if far.process != 0 {
		return leadsElsewhere // that is of this node
	}
	if on.at == far.host || far == l.to && on.at == l.at {
		return leadsThere
	}
	return mayLeadThere // a host may have several addresses
}

// why is the reason of a channel that may lead to the other end of a link.
func why(l *link, on channel) string {
	host, _, _ := net.SplitHostPort(l.far(on.pid).name)
	switch {
	case on.why != "":
		return on.why
	case on.to != 0:
		return fmt.Sprintf("it leads to process %d, which is not known to be that of %s", on.to, l.far(on.pid).name)
	}
	return fmt.Sprintf("a queue pair leads to %s, which is not known to be of %s", on.at, host)
}
