package scheduler

import "github.com/kvwitness/kvwitness/engine/kvcache"

// preallocate reserves pages for whole prompts and names them to the writers, in
// order of arrival, as long as the batch has room for those under way.
func (s *Scheduler) preallocate() {
	if s.cfg.Role != Decode {
		return
	}
	for _, r := range s.in(stPrealloc) {
		if !s.prealloc(r) {
			return
		}
	}
}

// prealloc takes r through its door; false: not now, nor anyone behind it.
func (s *Scheduler) prealloc(r *request) bool {
	if s.kv.PagesFor(r.prompt) > s.kv.Config().Pages-1 {
		s.retire(r, s.tooLong(r))
		return true
	}
	underWay := s.queued[stTransfer] + s.queued[stDigest] + s.queued[stRunning] + s.queued[stWaiting]
	if underWay >= s.cfg.MaxRunning || !s.transfersFit(len(r.links)) || s.aux.Available() < 1 {
		return false
	}
	m, _ := s.match(r, (r.prompt-1)/s.kv.Config().PageTokens)
	need := s.kv.PagesFor(r.prompt) - len(m.Pages)
	if s.spare(m) < need+s.headroom() {
		return false
	}
	if o := s.refused(r); o != nil {
		s.stopped(AdmissionReject)
		s.retire(r, o)
		return true
	}
	if s.reserve(r, m, need, 1) != nil {
		s.giveBack(r)
		return false
	}
	s.nameTargets(r)
	return true
}

func (s *Scheduler) transfersFit(n int) bool {
	return s.kv.OpenTransfers()+n <= s.kv.Config().MaxTransfers && s.aux.OpenTransfers()+n <= s.aux.Config().MaxTransfers
}

// nameTargets opens a transfer for each writer on everything reserved but not
// shared, and tells it.
func (s *Scheduler) nameTargets(r *request) {
	shared := r.kv.Shared()
	n := r.kv.Len() - shared
	r.handoffAt, r.arrived = s.now, make([]int32, n)
	for _, l := range r.links {
		s.xfer++
		l.xfer, l.got = s.xfer, make([]int32, n)
		s.must(s.kv.OpenTransfer(l.xfer, r.kv, shared, n))
		s.must(s.aux.OpenTransfer(l.xfer, r.aux, 0, 1))
		s.open[l.xfer] = &openXfer{room: r.info.Room, peer: l.peer, info: r.info, side: Receiver}
		s.cfg.Events.TransferStarted(s.at(), r.info, l.xfer, Receiver, l.peer, r.kv.Pages()[shared:])
		s.do(SendTargets{
			Req: r.info.Req, Room: r.info.Room, Peer: l.peer, Xfer: l.xfer,
			Pages: r.kv.Pages()[shared:], Gens: r.kv.Gens()[shared:],
			Slot: r.aux.Pages()[0], SlotGen: r.aux.Gens()[0],
			PrefixTokens: shared * s.kv.Config().PageTokens,
		})
	}
	s.enter(r, stTransfer)
}

// owed is how many tokens the prompt has in target i.
func (s *Scheduler) owed(r *request, i int) int32 {
	size := s.kv.Config().PageTokens
	return int32(min(size, r.prompt-(r.kv.Shared()+i)*size))
}

// arrived counts what a writer has put into the targets.
func (s *Scheduler) arrived(e Arrived) {
	r := s.room(e.Room)
	if r == nil {
		return
	}
	l := r.link(e.Peer)
	if l == nil || r.state != stTransfer || l.done || !s.plausible(e, len(l.got)) {
		s.stats.Late++
		return
	}
	r.since = s.now
	s.count(r, l, e.First, e.Count, e.Tokens)
}

func (s *Scheduler) plausible(e Arrived, targets int) bool {
	return e.First >= 0 && e.Count > 0 && e.Count <= targets-e.First && e.Tokens > 0 && e.Tokens <= s.kv.Config().PageTokens
}

// count notes count pages from first on for l. A page is written when every writer
// has put its part there; retries count once.
func (s *Scheduler) count(r *request, l *link, first, count, tokens int) {
	for i := first; i < first+count; i++ {
		n := int32(s.kv.Config().PageTokens)
		if i == first+count-1 {
			n = int32(tokens)
		}
		l.got[i] = max(l.got[i], n)
		least := l.got[i]
		for _, other := range r.links {
			least = min(least, other.got[i])
		}
		if least > r.arrived[i] {
			r.arrived[i] = least
			s.must(s.kv.Arrived(r.kv, r.kv.Shared()+i, int(least)))
		}
	}
}

// completed takes a writer's word that it is done, or that it failed. After a good
// end nothing of it is under way; after a failure there may be.
func (s *Scheduler) completed(e Completed) {
	r := s.room(e.Room)
	if r == nil {
		s.completedLate(e)
		return
	}
	l := r.link(e.Peer)
	if l == nil || l.told || r.state != stTransfer && (e.OK || r.state != stPrealloc) {
		s.stats.Late++
		return
	}
	l.told, r.since = true, s.now
	if e.OK {
		s.believe(r, l, e)
	}
	if l.xfer != 0 {
		s.cfg.Events.TransferCompleted(s.at(), r.info, l.xfer, Receiver, l.peer, e.OK, Extent{Known: e.HasLength, Pages: e.Pages, Tokens: e.Tokens}, true)
	}
	if !e.OK {
		s.retire(r, peerFailure(e))
		return
	}
	s.drain(l.xfer)
	l.xfer, l.done = 0, true
	r.first, r.firstEnds = e.First, e.Stop
	for _, other := range r.links {
		if !other.done {
			return
		}
	}
	s.handoff(r)
}

// completedLate serves a room that has ended, or that is not here yet.
func (s *Scheduler) completedLate(e Completed) {
	if e.OK {
		s.drainRoom(e.Room, e.Peer)
		return
	}
	s.ended.remember(e.Room, peerFailure(e))
}

func peerFailure(e Completed) *Outcome {
	status := e.Status
	if status < 400 || status > 599 || status == 499 { // whoever left the peer, it was not this one's client
		status = 502
	}
	return failed(status, ErrPeer, "%s: %s", e.Peer, e.Reason)
}

// believe takes the writer's count for the truth where nothing else is known, or
// where nothing is compared.
func (s *Scheduler) believe(r *request, l *link, e Completed) {
	if !e.HasLength || e.Counted && r.prot[HandoffCompare] {
		return
	}
	size := s.kv.Config().PageTokens
	tokens := min(e.Tokens, r.prompt-r.kv.Shared()*size)
	if tokens > 0 {
		s.count(r, l, 0, (tokens+size-1)/size, (tokens-1)%size+1)
	}
}

// handoff compares, and has the digest compared, before the pages may be read.
func (s *Scheduler) handoff(r *request) {
	if r.prot[HandoffCompare] {
		s.ran(HandoffCompare)
		if o := s.short(r); o != nil {
			s.stopped(HandoffCompare)
			s.retire(r, o)
			return
		}
	}
	if r.prot[PageTags] && s.aux.Config().Tagged {
		if f := s.aux.Tags().CheckRead(r.aux.Pages(), r.aux.Gens()); f != nil {
			s.stopped(PageTags)
			s.retire(r, failed(502, ErrPageTag, "the metadata of room %d: %v", r.info.Room, f))
			return
		}
	}
	if !r.prot[HandoffDigest] {
		s.commit(r)
		return
	}
	s.enter(r, stDigest)
	shared := r.kv.Shared()
	s.do(CheckDigest{
		Req: r.info.Req, Room: r.info.Room, Pages: r.kv.Pages()[shared:], Gens: r.kv.Gens()[shared:],
		Tokens: r.prompt - shared*s.kv.Config().PageTokens,
	})
}

// short says what is missing; nil if all that was owed has come.
func (s *Scheduler) short(r *request) *Outcome {
	full, tokens, owed := 0, 0, 0
	for i, n := range r.arrived {
		want := s.owed(r, i)
		owed += int(want)
		tokens += int(min(n, want))
		if n >= want {
			full++
		}
	}
	if full == len(r.arrived) {
		return nil
	}
	return failed(502, ErrShortHandoff, "room %d: %d of %d pages, %d of %d tokens", r.info.Room, full, len(r.arrived), tokens, owed)
}

// digestChecked goes on, or fails the request. A digest that the peer does not
// send protects nothing and is not counted as having run.
func (s *Scheduler) digestChecked(e DigestChecked) {
	r := s.reqs[e.Req]
	if r == nil || r.state != stDigest {
		s.stats.Late++
		return
	}
	if e.Ran {
		s.ran(HandoffDigest)
	}
	if e.Ran && !e.Match {
		s.stopped(HandoffDigest)
		s.retire(r, failed(502, ErrDigest, "room %d", r.info.Room))
		return
	}
	s.commit(r)
}

// commit asks at the second door, gives the metadata slot back, and lets r into
// the batch: from here on attention reads its pages. With page tags the token that
// prefill chose is withheld until a pass of this instance has read all of them: else
// it would be gone before their tags were ever looked at.
func (s *Scheduler) commit(r *request) {
	if r.prot[AdmissionReject] {
		s.ran(AdmissionReject)
	}
	if r.toFinish != nil && (r.prot[AdmissionReject] || s.mustEnd(r)) {
		s.retire(r, r.toFinish)
		return
	}
	s.must(s.aux.Release(r.aux))
	r.aux = nil
	r.computed = r.prompt
	s.enter(r, stRunning)
	r.tokens = append(r.tokens, r.first)
	if r.prot[PageTags] {
		r.withheld = true
		return
	}
	s.tell(r, r.first, r.firstEnds)
}

// drained: a writer can put nothing more into the pages of a room.
func (s *Scheduler) drained(e Drained) {
	if !s.drainRoom(e.Room, e.Peer) {
		s.stats.Late++
		return
	}
	if r := s.rooms[e.Room]; r != nil && r.link(e.Peer) != nil {
		l := r.link(e.Peer)
		l.xfer, l.told = 0, true
		s.retire(r, failed(502, ErrPeer, "%s drained room %d before it was complete", e.Peer, e.Room))
	}
}

// drainRoom ends the receiver's transfer of a room from a peer; false: none open.
func (s *Scheduler) drainRoom(room Room, peer Peer) bool {
	var found kvcache.Xfer
	for x, o := range s.open {
		if o.room == room && o.peer == peer && o.side == Receiver {
			found = x // at most one
		}
	}
	s.drain(found)
	return found != 0
}
