package scheduler

import "github.com/kvwitness/kvwitness/engine/kvcache"

// targets takes in the pages that a decode peer has reserved.
func (s *Scheduler) targets(e Targets) {
	r := s.rooms[e.Room]
	if r == nil {
		s.strayTargets(e)
		return
	}
	l := r.link(e.Peer)
	if l == nil || l.target != nil || r.state != stBootstrap {
		s.stats.Late++
		return
	}
	l.target = &e
	if o := s.badTargets(r, e); o != nil {
		s.retire(r, o)
		return
	}
	l.sent = e.PrefixTokens
	for _, l := range r.links {
		if l.target == nil {
			return
		}
	}
	if o := s.refused(r); o != nil {
		s.stopped(AdmissionReject)
		s.retire(r, o)
		return
	}
	s.enter(r, stWaiting)
}

// strayTargets answers for a room that has ended, and keeps those of a room that
// is yet to come.
func (s *Scheduler) strayTargets(e Targets) {
	s.stats.Late++
	o, over := s.ended.outcome(e.Room)
	if !over && len(s.early) < MaxEarlyTargets {
		s.early = append(s.early, earlyTargets{Targets: e, since: s.now})
		return
	}
	if !over {
		o = failed(429, ErrQueueFull, "room %d: too many rooms wait for their request", e.Room)
	}
	s.tellEnded(e.Room, e.Peer, o)
}

func (s *Scheduler) tellEnded(room Room, peer Peer, o *Outcome) {
	reason := "the room has ended"
	if o.Err != nil {
		reason = o.Err.Error()
	}
	s.do(TellStatus{Room: room, Peer: peer, Status: o.Status, Reason: reason})
	s.do(TellDrained{Room: room, Peer: peer})
}

// badTargets compares what decode reserved with what this side will send.
func (s *Scheduler) badTargets(r *request, e Targets) *Outcome {
	size := s.kv.Config().PageTokens
	if e.PrefixTokens < 0 || e.PrefixTokens%size != 0 || len(e.Gens) != len(e.Pages) {
		return failed(400, ErrMalformed, "targets of room %d: a prefix of %d tokens, %d pages and %d generations", e.Room, e.PrefixTokens, len(e.Pages), len(e.Gens))
	}
	owed := s.kv.PagesFor(r.prompt) - e.PrefixTokens/size
	if owed > len(e.Pages) {
		return failed(502, ErrPeer, "targets of room %d: %d pages for the %d that are to be sent", e.Room, len(e.Pages), owed)
	}
	if !r.prot[HandoffCompare] {
		return nil
	}
	s.ran(HandoffCompare)
	if owed != len(e.Pages) || e.PrefixTokens >= r.prompt {
		s.stopped(HandoffCompare)
		return failed(502, ErrShortHandoff, "targets of room %d: %d pages and a prefix of %d tokens for a prompt of %d", e.Room, len(e.Pages), e.PrefixTokens, r.prompt)
	}
	return nil
}

// prefilled: the whole prompt is in the pages.
func (s *Scheduler) prefilled(r *request, first int32) {
	r.first = first
	s.keep(r)
	s.enter(r, stInflight)
	if r.fault == LateChunk {
		s.drillLateChunk(r)
	}
}

// pump hands to the transport what is ready, one batch a peer at a time: what is in
// flight when a request ends is then no more than drains in time.
func (s *Scheduler) pump() {
	if s.cfg.Role != Prefill {
		return
	}
	for _, st := range []state{stRunning, stInflight, stLate} {
		for _, r := range s.in(st) {
			s.pumpRequest(r)
		}
	}
}

func (s *Scheduler) pumpRequest(r *request) {
	if r.state == stLate && s.now-r.since < int64(s.cfg.DrillDelay) || r.toFinish != nil && s.mustEnd(r) {
		return
	}
	for _, l := range r.links {
		if l.xfer != 0 || l.done {
			continue
		}
		if n := s.sendable(r, l); n > 0 {
			s.post(r, l, n)
		} else if r.left() == 0 && l.sent >= r.prompt {
			s.linkDone(r, l)
		}
		if r.finished != nil {
			return
		}
	}
	s.finishSending(r)
}

// sendable is how many pages may go to l now: those that are computed to their last
// token, and the rest of the prompt once it is done.
func (s *Scheduler) sendable(r *request, l *link) int {
	size := s.kv.Config().PageTokens
	ready := r.computed / size * size
	if r.left() == 0 {
		ready = r.prompt
	}
	if r.fault == LateChunk && r.state != stLate {
		ready = min(ready, (r.prompt-1)/size*size) // the last chunk is the late one
	}
	if r.fault == StalePull && !r.prot[WrittenFirst] { // the metadata still comes last
		ready = max(ready, (r.prompt-1)/size*size)
	}
	if r.fault == LyingEngine && r.left() > 0 {
		return 0
	}
	if ready <= l.sent {
		return 0
	}
	return min(s.kv.PagesFor(ready)-l.sent/size, s.kv.Config().BatchPages)
}

// post opens a transfer on the next n pages and hands it to the transport.
func (s *Scheduler) post(r *request, l *link, n int) {
	size := s.kv.Config().PageTokens
	first, end := l.sent/size, min(l.sent/size*size+n*size, r.prompt)
	if r.fault == LyingEngine {
		end = r.prompt
	}
	x, last := s.xfer+1, end == r.prompt
	if !s.openTransfer(r, l, x, first, n, last) {
		return
	}
	s.xfer = x
	s.open[x].last = last
	s.open[x].extent = Extent{Known: true, Pages: s.kv.PagesFor(end) - first, Tokens: end - l.sent}
	tokens := size
	if last {
		tokens = (r.prompt-1)%size + 1
	}
	if r.fault == LyingEngine { // all are claimed, the first alone is sent
		n, tokens = 1, min(size, r.prompt-l.sent)
	}
	if r.prot[PageTags] {
		s.ran(PageTags)
	}
	at := first - l.target.PrefixTokens/size
	s.do(StartTransfer{
		Req: r.info.Req, Room: r.info.Room, Peer: l.peer, Xfer: x,
		Source: r.kv.Pages()[first : first+n : first+n], SourceGens: r.kv.Gens()[first : first+n : first+n],
		Target: l.target.Pages[at : at+n : at+n], TargetGens: l.target.Gens[at : at+n : at+n],
		First: at, Tokens: tokens, CheckTags: r.prot[PageTags], Last: last,
		Slot: r.aux.Pages()[0], TargetSlot: l.target.Slot, TargetSlotGen: l.target.SlotGen, FirstToken: r.first,
	})
	l.sent, l.xfer = end, x
}

// openTransfer puts x on the books of the pools; false: not now.
func (s *Scheduler) openTransfer(r *request, l *link, x kvcache.Xfer, first, n int, slot bool) bool {
	if s.kv.OpenTransfer(x, r.kv, first, n) != nil {
		return false
	}
	slots := 0
	if slot {
		slots = 1
	}
	if s.aux.OpenTransfer(x, r.aux, 0, slots) != nil {
		s.kv.Drained(x)
		return false
	}
	s.open[x] = &openXfer{room: r.info.Room, peer: l.peer, info: r.info, side: Sender}
	s.cfg.Events.TransferStarted(s.at(), r.info, x, Sender, l.peer, r.kv.Pages()[first:first+n])
	return true
}

// sent: a transfer can touch no page any more, on either side.
func (s *Scheduler) sent(e Sent) {
	o := s.open[e.Xfer]
	if o == nil || o.side != Sender {
		s.stats.Late++
		return
	}
	s.cfg.Events.TransferCompleted(s.at(), o.info, e.Xfer, Sender, o.peer, e.OK, o.extent, o.last)
	s.drain(e.Xfer)
	r := s.rooms[o.room]
	if r == nil || r.info.Req != o.info.Req || r.link(o.peer) == nil {
		return
	}
	l := r.link(o.peer)
	l.xfer, r.since = 0, s.now
	switch {
	case e.Fault != nil:
		s.stopped(PageTags)
		s.retire(r, failed(500, ErrPageTag, "sending to %s: %v", o.peer, e.Fault))
	case !e.OK:
		s.retire(r, failed(502, ErrPeer, "sending to %s", o.peer))
	}
}

// linkDone tells a peer that it has everything.
func (s *Scheduler) linkDone(r *request, l *link) {
	l.done = true
	if l.told {
		return
	}
	l.told = true
	size := s.kv.Config().PageTokens
	status := TellStatus{
		Room: r.info.Room, Peer: l.peer, OK: true, HasLength: true, Status: 200,
		Pages: s.kv.PagesFor(r.prompt) - l.target.PrefixTokens/size, Tokens: r.prompt - l.target.PrefixTokens,
	}
	if r.fault == RejectedHandoff && r.toFinish != nil { // the signal of the incident
		status.HasLength, status.Pages, status.Tokens = false, 0, 0
	}
	s.do(status)
}

// finishSending ends a request that every peer has in full.
func (s *Scheduler) finishSending(r *request) {
	for _, l := range r.links {
		if !l.done {
			return
		}
	}
	if r.state == stLate {
		s.retire(r, failed(500, ErrAborted, "drill %s", r.fault))
		return
	}
	s.retire(r, &Outcome{Status: 200, Finish: FinishLength})
}

// drillLateChunk says that r has failed and is drained, and leaves its last chunk
// to be sent later.
func (s *Scheduler) drillLateChunk(r *request) {
	o := failed(500, ErrAborted, "drill %s", r.fault)
	s.sayAborted(r, o)
	for _, l := range r.links {
		s.tellFailed(r, l, o)
	}
	if r.prot[DropLateWork] {
		s.stopped(DropLateWork)
		s.retire(r, o)
		return
	}
	s.enter(r, stLate)
}

// peerAborted: decode gave a room up. What is being written runs to its end.
func (s *Scheduler) peerAborted(e PeerAborted) {
	o := aborted("decode: " + e.Reason)
	r := s.rooms[e.Room]
	if r == nil {
		s.stats.Late++
		s.ended.remember(e.Room, o)
		if !s.waitsForDrain(e.Room, e.Peer) {
			s.do(TellDrained{Room: e.Room, Peer: e.Peer})
		}
		return
	}
	if r.state == stLate {
		s.stats.Late++
		return
	}
	s.end(r, o)
}

// waitsForDrain says whether a transfer of a room that has ended is still under
// way, at whose end the peer will be told.
func (s *Scheduler) waitsForDrain(room Room, peer Peer) bool {
	for _, o := range s.open {
		if o.room == room && o.peer == peer && o.side == Sender {
			o.sayDrained = true
			return true
		}
	}
	return false
}
