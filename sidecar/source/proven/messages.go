package proven

import (
	"errors"
	"slices"
	"strconv"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
	wire "github.com/kvwitness/kvwitness/engine/pdwire"
	control "github.com/kvwitness/kvwitness/sidecar/source/pdwire"
	"github.com/kvwitness/kvwitness/sidecar/source/socket"
)

// heard is a message with who was seen to say it.
type heard struct {
	*control.Message
	again bool // it was taken in when it was seen at the other end
}

// sender is the process that said it, 0 where it was seen at the other end.
func (h *heard) sender() uint32 {
	if h.Sent {
		return h.TGID
	}
	return 0
}

// receiver is the process that heard it, 0 where it was seen at the other end.
func (h *heard) receiver() uint32 {
	if h.Sent {
		return 0
	}
	return h.TGID
}

// message takes in a message of a control connection.
func (s *State) message(m *control.Message) {
	s.stats.Messages++
	first := m.Frames[0]
	if first.Damaged || first.Size == 0 {
		s.stats.Foreign++
		return
	}
	h := &heard{m, s.wasSeen(m)}
	if h.again {
		s.stats.Twice++
	}
	if len(m.Frames) == 1 {
		s.vllm(h, first.Body)
		return
	}
	msg, err := wire.Parse(m.Frames)
	if err != nil {
		s.unread("a control message", err)
		return
	}
	switch msg := msg.(type) {
	case *wire.Registration:
		s.registration(h, msg)
	case *wire.TransferRequest:
		s.request(h, msg)
	case *wire.Status:
		s.status(h, msg)
	case *wire.Abort:
		s.abort(h, msg)
	case *wire.AbortAck:
		s.aborted(h, msg)
	case *wire.NixlRegistration:
		s.registration(h, &wire.Registration{Address: msg.Address, Session: msg.Agent, KVPtrs: msg.KVPtrs, KVItemBytes: msg.KVItemBytes})
	case *wire.NixlRequest:
		s.request(h, &wire.TransferRequest{Room: msg.Room, Address: msg.Address, Session: msg.Agent, Pages: msg.Pages})
	}
}

// unread counts a message that was not understood. Of an error only its kind is
// told: its text may quote the message.
func (s *State) unread(what string, err error) {
	s.stats.Unread++
	kind := "malformed"
	switch {
	case errors.Is(err, wire.ErrUnknown):
		return // of another kind than those that are looked at
	case errors.Is(err, wire.ErrTooLarge):
		kind = "beyond a limit"
	case errors.Is(err, wire.ErrIncomplete):
		kind = "not captured whole"
	}
	s.problem(what + " was not understood: " + kind)
}

// problem tells of something that does not work, up to MaxProblems times: what is
// said by engines must fill no log.
func (s *State) problem(text string) {
	if s.told++; s.told <= MaxProblems {
		s.cfg.Problem(text)
	}
}

// flow is how far the messages of one direction of a connection were taken in,
// and the sockets at which they were seen.
type flow struct {
	end    uint64
	inodes [2]uint64
}

// wasSeen reports whether a message was seen at the other end of its connection.
// A third socket is of a new connection between the same ports.
func (s *State) wasSeen(m *control.Message) bool {
	f, known := s.flows[m.Flow]
	if !known && len(s.flows) >= MaxFlows {
		s.stats.Forgotten += uint64(len(s.flows))
		clear(s.flows)
	}
	if !slices.Contains(f.inodes[:], m.Inode) {
		switch {
		case f.inodes[0] == 0:
			f.inodes[0] = m.Inode
		case f.inodes[1] == 0:
			f.inodes[1] = m.Inode
		default:
			f = flow{inodes: [2]uint64{m.Inode}}
		}
	}
	seen := m.End <= f.end
	f.end = max(f.end, m.End)
	s.flows[m.Flow] = f
	return seen
}

// flowsEnd forgets whose answers go over a connection that was closed.
func (s *State) flowsEnd(e socket.Ends) {
	delete(s.asked, e.Sent())
	delete(s.asked, e.Received())
}

// registration: decode tells prefill where its memory is.
func (s *State) registration(h *heard, r *wire.Registration) {
	to, from := s.instance(join(r.Address)), s.instance(h.Flow.To.String())
	l := s.link(to, from)
	if l == nil {
		return
	}
	s.runsIn(to, h.sender())
	s.runsIn(from, h.receiver())
	l.goesTo(r.Session)
	if h.again {
		return
	}
	pools, err := ofSGLang(r)
	if err != nil {
		s.unread("the registration of "+to.name, err)
		return
	}
	s.registered(to, from, pools, r.StagingPtr != 0)
}

// request: decode names the pages that prefill shall write.
func (s *State) request(h *heard, r *wire.TransferRequest) {
	to, from := s.instance(join(r.Address)), s.instance(h.Flow.To.String())
	l := s.link(to, from)
	if l == nil {
		return
	}
	s.runsIn(to, h.sender())
	s.runsIn(from, h.receiver())
	if h.again {
		return
	}
	room := strconv.FormatInt(r.Room, 10)
	pages, ok := runs(r.Pages)
	if !ok || len(r.DevicePages) > 0 {
		s.unread("a request to "+from.name, errNoPages)
		return
	}
	s.started(l, room, "kv", pages, r.Room == 0)
}

// errNoPages is of a request whose numbers are none of pages of the pool.
var errNoPages = errors.New("no pages of the pool")

// started says that a receiver named pages to a writer.
func (s *State) started(l *link, room, pool string, pages lifecycle.Runs, synthetic bool) {
	if !l.to.opened {
		why := "registration not seen: it was sent before the witness was there; let " + l.to.name + " or " + l.from.name + " start anew"
		s.withdraw(l, overTCP, why)
		if s.paths.Uses(l.from.process) || s.ucx.Uses(l.from.process) {
			s.withdraw(l, overRDMA, why)
		}
	}
	s.begin(room, l.to, l.from, pool)
	if len(l.open) < MaxRooms {
		l.open[room] = true
	}
	s.emit(&lifecycle.Fact{
		Inst: l.to.name, Src: lifecycle.Wire, Ev: lifecycle.TransferStarted, Xfer: Xfer, Room: room, Side: lifecycle.Receiver,
		Pool: pool, Pages: pages, Peer: l.from.name, Op: lifecycle.Push, Synthetic: synthetic,
	})
}

// runs are pages as the wire lists them, in their order.
func runs[T int32 | int64](pages []T) (out lifecycle.Runs, ok bool) {
	for _, p := range pages {
		if p < 0 || int64(p) >= lifecycle.MaxPages {
			return nil, false
		}
		if out = out.Append(uint32(p)); len(out) > lifecycle.MaxRuns {
			return nil, false
		}
	}
	return out, true
}

// place finds the room that a message to decode is about, and the peer that says
// it.
func (s *State) place(h *heard, id int64) (name string, r *room, from *instance) {
	name = strconv.FormatInt(id, 10)
	to := s.at(h.Flow.To, h.receiver())
	if to == nil {
		s.stats.Unplaced++
		return name, nil, nil
	}
	s.runsIn(to, h.receiver())
	r = s.rooms[roomKey{name, to.name}]
	if r == nil {
		s.stats.Unplaced++
		return name, nil, nil
	}
	if from = s.writerOf(r, h.Flow, h.sender()); from == nil {
		s.stats.Unplaced++
		return name, nil, nil
	}
	s.runsIn(from, h.sender())
	return name, r, from
}

// status: prefill tells decode how a room stands.
func (s *State) status(h *heard, m *wire.Status) {
	name, r, from := s.place(h, m.Room)
	if r == nil || h.again {
		return
	}
	switch m.Status {
	case wire.StatusSuccess:
		s.completed(r, name, from, lifecycle.OK)
	case wire.StatusFailed:
		s.completed(r, name, from, lifecycle.Failed)
	case wire.StatusBootstrapping, wire.StatusWaiting, wire.StatusTransferring:
	}
}

func (s *State) completed(r *room, name string, from *instance, how lifecycle.Outcome) {
	s.emit(&lifecycle.Fact{
		Inst: r.to.name, Src: lifecycle.Wire, Ev: lifecycle.TransferCompleted, Xfer: Xfer, Room: name, Peer: from.name, Outcome: how,
	})
	s.over(r.to, name, from)
}

// abort: decode gives a room up. The wire does not say which request that is.
func (s *State) abort(h *heard, m *wire.Abort) {
	to := s.insts[join(m.Address)]
	name := strconv.FormatInt(m.Room, 10)
	if to == nil || s.rooms[roomKey{name, to.name}] == nil {
		s.stats.Unplaced++
		return
	}
	s.runsIn(to, h.sender())
	if h.again {
		return
	}
	s.emit(&lifecycle.Fact{Inst: to.name, Src: lifecycle.Wire, Ev: lifecycle.RequestAborted, Req: "room " + name, Room: name})
	for _, from := range s.rooms[roomKey{name, to.name}].peers {
		s.over(to, name, from)
	}
}

// aborted: prefill has heard of that; newer versions say so once nothing of the
// room can still arrive.
func (s *State) aborted(h *heard, m *wire.AbortAck) {
	name, r, from := s.place(h, m.Room)
	if r == nil || h.again || !m.Drained {
		return
	}
	s.emit(&lifecycle.Fact{
		Inst: r.to.name, Src: lifecycle.Wire, Ev: lifecycle.TransferDrained, Xfer: Xfer, Room: name, Peer: from.name,
	})
}
