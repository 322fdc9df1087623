package scheduler

import "slices"

// placeholder stands for a prompt that a drilled engine will not compute.
const placeholder int32 = 0

// submit admits a request to its first queue, or rejects it with the reason.
func (s *Scheduler) submit(e Submit) {
	s.stats.Submitted++
	r := s.newRequest(e)
	if o := s.unfit(r, e); o != nil {
		s.reject(r, o)
		return
	}
	s.mark(r)
	if o := s.refused(r); o != nil {
		s.stopped(AdmissionReject)
		s.reject(r, o)
		return
	}
	switch s.cfg.Role {
	case Unified:
		r.state = stWaiting
	case Prefill:
		r.state = stBootstrap
	case Decode:
		r.state = stPrealloc
	}
	s.add(r)
	s.claimEarlyTargets(r)
}

func (s *Scheduler) newRequest(e Submit) *request {
	r := &request{
		info:   Info{Req: e.Req, Room: e.Room, Domain: e.Domain, PromptTokens: len(e.Prompt), Synthetic: e.Synthetic},
		tokens: slices.Clone(e.Prompt), prompt: len(e.Prompt), maxNew: e.MaxNew,
		prot: s.cfg.Protections, since: s.now,
	}
	if (s.stats.Submitted-1)%uint64(s.cfg.DrillEvery) == 0 {
		r.fault = s.cfg.Drill
	}
	if s.cfg.AllowRequestDrill && e.Drill != NoDrill && e.Drill.Spec().PerRequest {
		r.fault = e.Drill
		r.prot = s.cfg.without(r.prot, e.Drill)
	}
	if s.cfg.Role == Unified { // which has nobody to hand over to
		r.info.Room = 0
		return r
	}
	for _, p := range e.Peers {
		r.links = append(r.links, &link{peer: p})
	}
	return r
}

// unfit is why a request cannot even be asked about; nil if it can.
func (s *Scheduler) unfit(r *request, e Submit) *Outcome {
	switch {
	case s.stopping:
		return failed(503, ErrStopping, "submitting request %d", e.Req)
	case len(s.live)-s.queued[stRunning] >= s.cfg.MaxQueued:
		return failed(429, ErrQueueFull, "submitting request %d: %d are waiting", e.Req, s.cfg.MaxQueued)
	case e.Req == 0 || s.reqs[e.Req] != nil || r.info.Room != 0 && s.rooms[r.info.Room] != nil:
		return failed(409, ErrDuplicate, "submitting request %d of room %d", e.Req, e.Room)
	case len(e.Prompt) == 0 || len(e.Domain) > MaxDomainBytes || e.MaxNew < 1:
		return failed(400, ErrMalformed, "submitting request %d: %d prompt tokens, %d to make, a domain of %d bytes", e.Req, len(e.Prompt), e.MaxNew, len(e.Domain))
	case s.cfg.Role != Unified && !validPeers(e.Room, e.Peers):
		return failed(400, ErrMalformed, "submitting request %d: room %d with %d peers (each once, at most %d)", e.Req, e.Room, len(e.Peers), MaxPeers)
	}
	if o, ok := s.ended.outcome(r.info.Room); ok && o.Status == 200 {
		return failed(409, ErrDuplicate, "submitting request %d of room %d", e.Req, e.Room)
	} else if ok {
		return o
	}
	if err := s.refusedPeer(e.Peers); err != nil {
		return failed(502, ErrPeer, "submitting request %d: %v", e.Req, err)
	}
	limit := s.cfg.ContextTokens
	if r.prot[PoolGate] {
		limit = s.limit
		s.ran(PoolGate)
	}
	if len(e.Prompt)+1 <= limit {
		r.maxNew = min(r.maxNew, limit-len(e.Prompt))
		return nil
	}
	if limit < s.cfg.ContextTokens {
		s.stopped(PoolGate)
	}
	return failed(400, ErrOverLong, "a prompt of %d tokens and one to answer with, a context of %d", len(e.Prompt), limit)
}

func validPeers(room Room, peers []Peer) bool {
	sorted := slices.Sorted(slices.Values(peers))
	return room != 0 && len(peers) > 0 && len(peers) <= MaxPeers && len(slices.Compact(sorted)) == len(peers)
}

// mark notes on r that neither this instance nor its peers could hold the prompt.
// Whether anybody looks at the mark is the door's affair.
func (s *Scheduler) mark(r *request) {
	most := s.kv.Capacity()
	for _, l := range r.links {
		if up, ok := s.peers[l.peer]; ok && up.Capacity > 0 {
			most = min(most, up.Capacity)
		}
	}
	if r.prompt <= most {
		if s.cfg.Role != Prefill {
			r.maxNew = max(1, min(r.maxNew, s.kv.Capacity()-r.prompt))
		}
		return
	}
	r.toFinish = failed(400, ErrPoolTooSmall, "a prompt of %d tokens, a pool of %d", r.prompt, most)
	r.toFinish.rejected = true
	s.sayRejected(r, r.toFinish)
	if r.fault == RejectedHandoff && s.cfg.Role == Prefill {
		r.tokens, r.prompt = []int32{placeholder}, 1
	}
}

// refused asks at a door whether r must end here. The right question covers every
// mark on a request that is not yet admitted; one that is may hold pages and
// metadata, and ends by the way that gives them back. The wrong question, which
// the incident asked, is whether r has finished: a mark alone is no finish.
func (s *Scheduler) refused(r *request) *Outcome {
	if r.prot[AdmissionReject] {
		s.ran(AdmissionReject)
		if r.toFinish != nil && !r.admitted {
			return r.toFinish
		}
	}
	return r.finished
}

// admit says that r has passed the doors. A request that slipped through with a
// mark on it is not announced: it was rejected in words.
func (s *Scheduler) admit(r *request, prefixTokens int) {
	if !r.admitted && r.toFinish == nil {
		s.cfg.Events.Admitted(s.at(), r.info, prefixTokens)
	}
	r.admitted = true
}

// reject answers a request that holds nothing and never will.
func (s *Scheduler) reject(r *request, o *Outcome) {
	s.sayRejected(r, o)
	s.stats.Rejected++
	s.do(Reject{Req: r.info.Req, Status: o.Status, Err: o.Err})
	if r.info.Room == 0 || s.rooms[r.info.Room] != nil {
		return
	}
	for _, l := range r.links {
		s.tellFailed(r, l, o)
	}
	s.ended.remember(r.info.Room, o)
}

func (s *Scheduler) sayRejected(r *request, o *Outcome) {
	if !r.endSaid {
		s.cfg.Events.Rejected(s.at(), r.info, o.Status, o.Err.Error())
	}
	r.endSaid = true
}

// endedRooms remembers how the last rooms ended.
type endedRooms struct {
	ring [MaxEndedRooms]Room
	next int
	by   map[Room]*Outcome
}

func (e *endedRooms) remember(room Room, o *Outcome) {
	if e.by == nil {
		e.by = map[Room]*Outcome{}
	}
	if _, ok := e.by[room]; ok {
		return
	}
	delete(e.by, e.ring[e.next])
	e.ring[e.next] = room
	e.next = (e.next + 1) % MaxEndedRooms
	e.by[room] = o
}

func (e *endedRooms) outcome(room Room) (*Outcome, bool) {
	o, ok := e.by[room]
	return o, ok
}

// earlyTargets came before their request.
type earlyTargets struct {
	Targets
	since int64
}

func (s *Scheduler) claimEarlyTargets(r *request) {
	if s.cfg.Role != Prefill {
		return
	}
	var mine []earlyTargets
	s.early = slices.DeleteFunc(s.early, func(e earlyTargets) bool {
		if e.Room == r.info.Room {
			mine = append(mine, e)
			return true
		}
		return false
	})
	for _, e := range mine {
		s.targets(e.Targets)
	}
}

// openTables begins r's block tables. They cannot exist already: a request that
// gave its pages up has released them.
func (s *Scheduler) openTables(r *request, slots int) error {
	kv, err := s.kv.Open(r.info.Req, r.info.Domain, r.bypass())
	if err != nil {
		return err
	}
	r.kv = kv
	if slots == 0 {
		return nil
	}
	aux, err := s.aux.Open(r.info.Req, r.info.Domain, r.bypass())
	if err != nil {
		return err
	}
	r.aux = aux
	return s.aux.Reserve(aux, slots)
}
