package scheduler

import (
	"fmt"
	"slices"

	"github.com/kvwitness/kvwitness/engine/kvcache"
)

// Scheduler is the state machine. It is not safe for concurrent use.
type Scheduler struct {
	cfg   Config
	limit int // effective context
	kv    *kvcache.Pool
	aux   *kvcache.Pool
	cache *kvcache.Cache

	now      int64
	step     uint64
	order    uint64
	xfer     kvcache.Xfer
	stopping bool
	actions  []Action

	live     []*request // in order of arrival
	reqs     map[kvcache.Req]*request
	rooms    map[Room]*request
	queued   [numStates]int
	launched []*launched // items of the step in flight; empty: none
	copies   []Copy

	peers map[Peer]peerState
	open  map[kvcache.Xfer]*openXfer
	early []earlyTargets
	ended endedRooms
	stats Stats
}

// launched is an item in flight.
type launched struct {
	r     *request
	start int
	n     int
}

// openXfer is a transfer that is not drained; it outlives its request.
type openXfer struct {
	room Room
	peer Peer
	info Info
	side Side
	// sayDrained: the request has ended, and the peer waits to hear that this was
	// the last that could come.
	sayDrained bool
	last       bool
	fenced     bool
	extent     Extent
}

// Stats are counters since the start.
type Stats struct {
	Ran, Stopped [NumProtections]uint64
	Submitted    uint64
	Rejected     uint64
	Answered     uint64
	Preempted    uint64
	Fenced       uint64
	// Late: events about what has already ended.
	Late uint64
}

// New makes a scheduler on pools that it alone drives. aux is the pool of metadata
// slots, needed for prefill and decode; cache may be nil. It fails with
// ErrContextExceedsPool or ErrBatchCannotDrain.
func New(cfg Config, kv, aux *kvcache.Pool, cache *kvcache.Cache) (*Scheduler, error) {
	cfg.complete()
	limit, err := cfg.check(kv)
	if err != nil {
		return nil, err
	}
	if cfg.Role != Unified && aux == nil {
		return nil, fmt.Errorf("configuring the scheduler: a %s engine needs a pool of metadata slots", cfg.Role)
	}
	s := &Scheduler{
		cfg: cfg, limit: limit, kv: kv, aux: aux, cache: cache,
		reqs: map[kvcache.Req]*request{}, rooms: map[Room]*request{},
		peers: map[Peer]peerState{}, open: map[kvcache.Xfer]*openXfer{},
	}
	if cfg.Protections[PoolGate] {
		s.ran(PoolGate)
	}
	return s, nil
}

// Limit is the effective context in tokens: the declared one, or less.
func (s *Scheduler) Limit() int { return s.limit }

// Protections that are on for a request without a drill of its own.
func (s *Scheduler) Protections() Protections { return s.cfg.Protections }

// Stats so far.
func (s *Scheduler) Stats() Stats { return s.stats }

// StepID of the last launch.
func (s *Scheduler) StepID() uint64 { return s.step }

// Queues tells how many requests are in each queue, by its name.
func (s *Scheduler) Queues() map[string]int {
	q := map[string]int{}
	for st := range numStates {
		q[st.String()] = s.queued[st]
	}
	return q
}

// Idle says that no request is here and no transfer is open.
func (s *Scheduler) Idle() bool { return len(s.live) == 0 && len(s.open) == 0 }

// Step takes one event at time now (nanoseconds of a clock that never goes back)
// and returns what to do, in order. The slice is valid until the next Step.
func (s *Scheduler) Step(now int64, ev Event) []Action {
	s.now = max(s.now, now)
	s.actions = s.actions[:0]
	s.advance()
	s.dispatch(ev)
	s.expire()
	s.preallocate()
	s.pump()
	s.schedule()
	s.verify()
	return s.actions
}

func (s *Scheduler) dispatch(ev Event) {
	switch e := ev.(type) {
	case Submit:
		s.submit(e)
	case Abort:
		s.abort(e.Req, e.Reason)
	case Disconnect:
		s.disconnect(e.Req)
	case Stop:
		s.stopping = true
	case ForwardDone:
		s.forwardDone(e)
	case PeerUp:
		s.peerUp(e)
	case PeerGone:
		s.peerGone(e.Peer)
	case Targets:
		s.targets(e)
	case Sent:
		s.sent(e)
	case PeerAborted:
		s.peerAborted(e)
	case Arrived:
		s.arrived(e)
	case Completed:
		s.completed(e)
	case Drained:
		s.drained(e)
	case DigestChecked:
		s.digestChecked(e)
	}
}

func (s *Scheduler) do(a Action) { s.actions = append(s.actions, a) }

func (s *Scheduler) at() kvcache.At { return kvcache.At{Now: s.now, Step: s.step} }

func (s *Scheduler) advance() {
	s.kv.Advance(s.now, s.step)
	if s.aux != nil {
		s.aux.Advance(s.now, s.step)
	}
}

func (s *Scheduler) ran(p Protection) {
	s.stats.Ran[p]++
	s.cfg.Events.Protected(s.at(), p, false)
}

func (s *Scheduler) stopped(p Protection) {
	s.stats.Stopped[p]++
	s.cfg.Events.Protected(s.at(), p, true)
}

// enter puts r into a queue, which counts as progress.
func (s *Scheduler) enter(r *request, to state) {
	s.queued[r.state]--
	s.queued[to]++
	r.state, r.since = to, s.now
}

func (s *Scheduler) add(r *request) {
	s.order++
	r.order = s.order
	s.live = append(s.live, r)
	s.reqs[r.info.Req] = r
	if r.info.Room != 0 {
		s.rooms[r.info.Room] = r
	}
	s.queued[r.state]++
}

func (s *Scheduler) remove(r *request) {
	s.queued[r.state]--
	s.live = slices.DeleteFunc(s.live, func(o *request) bool { return o == r })
	delete(s.reqs, r.info.Req)
	if r.info.Room != 0 {
		delete(s.rooms, r.info.Room)
		s.ended.remember(r.info.Room, r.finished)
	}
}

// room is the live request of a room; a room that has ended is counted as late.
func (s *Scheduler) room(room Room) *request {
	r := s.rooms[room]
	if r == nil {
		s.stats.Late++
	}
	return r
}

// in lists the requests of one queue, in order of arrival. It is a copy: what the
// caller does may empty the queue.
func (s *Scheduler) in(st state) []*request {
	if s.queued[st] == 0 {
		return nil
	}
	out := make([]*request, 0, s.queued[st])
	for _, r := range s.live {
		if r.state == st {
			out = append(out, r)
		}
	}
	return out
}
