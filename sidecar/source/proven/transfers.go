package proven

import (
	"fmt"
	"net/netip"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/sidecar/probe"
	control "github.com/kvwitness/kvwitness/sidecar/source/pdwire"
	"github.com/kvwitness/kvwitness/sidecar/source/socket"
	"github.com/kvwitness/kvwitness/sidecar/source/tcpxfer"
)

// dataConn is a connection into a watched process that carries transfers, or one
// of which that is not known.
type dataConn struct {
	process uint32
	ends    socket.Ends
	state   sightOf
	mapped  int // WRITEs into a region since it was met or joined
}

// sightOf says what is seen of a connection.
type sightOf uint8

const (
	followed sightOf = iota
	joined           // where its headers stand was taken from how the process reads
	stranger         // it was open before, and may carry anything
	blind
)

// trusted is how many WRITEs of a joined connection must have fit a region before
// it is believed.
const trusted = 2

// transfer takes in what was seen of a transfer over TCP.
func (s *State) transfer(r *tcpxfer.Record) {
	if r.Kind == tcpxfer.Client {
		if len(s.clients) >= MaxFlows {
			s.stats.Forgotten += uint64(len(s.clients))
			clear(s.clients)
		}
		s.clients[r.Ends.Sent()] = r.TGID
		return
	}
	if r.Kind == tcpxfer.Closed {
		delete(s.data, r.Inode)
		delete(s.clients, r.Ends.Received())
		return
	}
	c := s.conn(r)
	if c == nil {
		s.unfollowed = true
		return
	}
	switch r.Kind {
	case tcpxfer.Moved:
		s.moved(c, r)
	case tcpxfer.Asked:
		s.stats.Pulls++
	case tcpxfer.Joined:
		c.state, c.mapped = joined, 0
	case tcpxfer.Blind:
		c.state = blind
		s.withdrawConn(c, r.Reason.String())
	case tcpxfer.Stranger:
		c.state = stranger
	case tcpxfer.Client, tcpxfer.Closed:
	}
}

func (s *State) conn(r *tcpxfer.Record) *dataConn {
	if c := s.data[r.Inode]; c != nil {
		return c
	}
	if len(s.data) >= MaxData {
		s.stats.Forgotten++
		return nil
	}
	c := &dataConn{process: r.TGID, ends: r.Ends}
	s.data[r.Inode] = c
	return c
}

// moved: a WRITE's payload has arrived.
func (s *State) moved(c *dataConn, r *tcpxfer.Record) {
	s.stats.Transfers++
	to := s.owner(r)
	if to == nil {
		return // metadata, or memory that nobody registered
	}
	from := s.writer(to, c)
	if r.Holed {
		s.withdrawConn(c, "part of a payload was taken from the socket unseen")
		return
	}
	s.stats.Mapped++
	c.mapped++
	f := &lifecycle.Fact{
		Inst: to.name, Src: lifecycle.TCP, Ev: lifecycle.BytesMoved, Addr: r.Address, Bytes: r.Bytes, Op: lifecycle.Write, Outcome: lifecycle.OK,
	}
	if from != nil {
		f.From = from.name
	}
	s.emit(f)
	if from != nil {
		s.prove(to, from, c)
	}
}

// owner is the instance of the process whose region the bytes fell into.
func (s *State) owner(r *tcpxfer.Record) *instance {
	for _, i := range s.byProcess[r.TGID] {
		if i.holds(r.Address, r.Bytes) {
			return i
		}
	}
	return nil
}

// writer is who writes over a connection: the peer whose session it is, the
// peer that runs in the process at its other end, or the only one of its host.
func (s *State) writer(to *instance, c *dataConn) *instance {
	process := s.clients[c.ends.Received()]
	var ofHost *instance
	hosts := 0
	for _, l := range to.links {
		if l.session == c.ends.Local.String() && s.soleSession(to, l) || process != 0 && l.from.process == process {
			return l.from
		}
		if a, err := netip.ParseAddrPort(l.from.name); err == nil && a.Addr() == c.ends.Remote.Addr() && (process == 0 || l.from.process == 0) {
			ofHost = l.from
			hosts++
		}
	}
	if hosts == 1 {
		return ofHost
	}
	return nil
}

// soleSession reports whether only one peer was given that session.
func (s *State) soleSession(to *instance, l *link) bool {
	for _, o := range to.links {
		if o != l && o.session == l.session {
			return false
		}
	}
	return true
}

// sayAgain is how often sight is declared anew, in ns: the judge hears of an
// instance's restart from its stream, perhaps after the first bytes into it were
// seen, and then knows nothing of the sight that was declared meanwhile.
const sayAgain = 1e9

// prove declares sight of a peer's writes, if nothing stands against it.
func (s *State) prove(to, from *instance, c *dataConn) {
	l := to.links[from.name]
	if l == nil {
		return
	}
	l.ways[overTCP].used = true
	if l.ways[overRDMA].covered {
		s.withdraw(l, overRDMA, bothWays)
	}
	if s.due(l, overTCP) {
		s.declare(l, overTCP, s.against(l, c))
	}
}

// bothWays is of a peer of which not all can come over one way.
const bothWays = "its bytes come over TCP and over RDMA"

// due reports whether sight of a way is to be declared.
func (s *State) due(l *link, w way) bool {
	return s.now >= s.doubted[w] && (!l.ways[w].covered || s.now-l.ways[w].said >= sayAgain)
}

// declare says that the sight of a peer's writes is complete, or why it is not.
func (s *State) declare(l *link, w way, why string) {
	if why != "" {
		s.withdraw(l, w, why)
		return
	}
	on := &l.ways[w]
	on.covered, on.told, on.said = true, "", s.now
	s.emit(&lifecycle.Fact{
		Inst: l.to.name, Src: lifecycle.Sidecar, Ev: lifecycle.SourceCoverage, Of: w.source(), Complete: true, Peer: l.from.name,
	})
}

// against is why the sight of a peer's writes is not complete.
func (s *State) against(l *link, c *dataConn) string {
	to, from := l.to, l.from
	switch {
	case l.ways[overRDMA].used:
		return bothWays
	case s.unfollowed:
		return "there are more connections than can be followed"
	case to.staged:
		return "staged: what arrives goes through a buffer and is scattered by a kernel"
	case c.state == joined && c.mapped < trusted:
		return "its connection was open before, and is not trusted yet"
	}
	for _, o := range s.data {
		if o.process != c.process || o.ends.Local.Port() != c.ends.Local.Port() || o.state != blind && o.state != stranger {
			continue
		}
		if w := s.writer(to, o); w == nil || w == from {
			return "another connection to the same port is not followed: it was open before, or bytes of it went by unseen"
		}
	}
	return ""
}

// withdrawConn ends the sight of those who may write over a connection.
func (s *State) withdrawConn(c *dataConn, why string) {
	for _, to := range s.byProcess[c.process] {
		from := s.writer(to, c)
		for _, name := range peers(to) {
			if l := to.links[name]; from == nil || l.from == from {
				s.withdraw(l, overTCP, why)
			}
		}
	}
}

// withdraw says that the sight of a peer's writes is not complete, and why; once.
func (s *State) withdraw(l *link, w way, why string) {
	on := &l.ways[w]
	if !on.covered && on.told == why {
		return
	}
	on.covered, on.told = false, why
	s.emit(&lifecycle.Fact{
		Inst: l.to.name, Src: lifecycle.Sidecar, Ev: lifecycle.SourceCoverage, Of: w.source(), Peer: l.from.name,
		Reason: why[:min(len(why), lifecycle.MaxText)],
	})
}

// losses takes in what the rings had no room for since the last mark. It may have been
// lost after records that are taken in only now.
func (s *State) losses(before, now *probe.Mark) {
	if n := now.TransferLost - before.TransferLost; n > 0 {
		s.stats.LostRecord += n
		s.lost(lifecycle.TCP, n, now.Counted, "the ring of transfers was full")
	}
	if n := now.ControlLost - before.ControlLost; n > 0 {
		s.stats.LostRecord += n
		s.lost(lifecycle.Wire, n, now.Counted, "the ring of control messages was full")
	}
	if now.TransferFull > before.TransferFull {
		s.unfollowed = true
		s.lost(lifecycle.TCP, now.TransferFull-before.TransferFull, now.Counted, "more connections than can be followed")
	}
	if n := now.VerbsLost - before.VerbsLost; n > 0 {
		s.stats.LostRecord += n
		if now.VerbsUntold > before.VerbsUntold {
			s.paths.Distrust()
			s.ucx.Distrust()
		}
		s.lost(lifecycle.RDMA, n, now.Counted, "the ring of RDMA requests was full, or calls could not be followed")
	}
	if n := now.CUDALost - before.CUDALost; n > 0 {
		// What a process holds is not known any more; who writes to it is.
		s.stats.LostRecord += n
		s.distrust = lossMarks
		s.books.Lost("records of its calls were lost")
		s.problem("records of calls of the CUDA driver were lost: what the processes hold is not known until they start anew")
	}
	if now.ControlFull > before.ControlFull {
		s.lost(lifecycle.Wire, now.ControlFull-before.ControlFull, now.Counted, "more control connections than can be followed")
	}
}

// lost says so of the whole node, and forgets what was proven. until is when it was
// lost at the latest.
func (s *State) lost(of lifecycle.Src, n uint64, until int64, why string) {
	s.emit(&lifecycle.Fact{Src: lifecycle.Sidecar, Ev: lifecycle.EventsLost, Of: of, Count: n, Stage: "kernel", Reason: why})
	for w := range numWays {
		if w.source() != of {
			continue
		}
		s.doubted[w] = until
		for _, i := range s.insts {
			for _, l := range i.links { // the loss has withdrawn it already
				l.ways[w].covered, l.ways[w].told = false, ""
			}
		}
	}
}

// lostStream: a control connection is not followed any more. What its instances
// said meanwhile is not known.
func (s *State) lostStream(r *control.Record, why string) {
	if r.Kind == control.Refused {
		s.problem(fmt.Sprintf("control connection %s to %s cannot be read: %s", r.Ends.Local, r.Ends.Remote, why))
		return
	}
	f := r.Flow()
	for _, i := range s.sorted() {
		if i.process != r.TGID && i.name != f.To.String() && i.name != f.From.String() {
			continue
		}
		s.emit(&lifecycle.Fact{
			Inst: i.name, Src: lifecycle.Sidecar, Ev: lifecycle.EventsLost, Of: lifecycle.Wire, Count: 1, Stage: "capture",
			Reason: why[:min(len(why), lifecycle.MaxText)],
		})
	}
}
