package intake

import (
	"context"
	"math"
	"sync"
	"time"
	"unsafe"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
)

// Standing is how far a source is with what it follows.
type Standing uint8

// The standings of a source.
const (
	Away       Standing = iota // there is nothing to follow
	CatchingUp                 // what was missed is being asked for
	Live                       // facts come as they happen
)

// Loss is why a fact that came was not taken.
type Loss uint8

// The reasons for which facts are refused.
const (
	Ahead  Loss = iota // its time is far ahead of the node's clock
	Behind             // its time is far behind
	Closed             // the source was closed before it was taken
	NumLoss
)

var lossNames = [NumLoss]string{"ahead of the clock", "behind the clock", "closed"}

func (l Loss) String() string { return lossNames[l] }

// Stats counts what became of a source's facts, and says how full it is.
type Stats struct {
	Put   uint64
	Taken uint64
	Lost  [NumLoss]uint64

	Waiting    int   // facts
	Bytes      int   // of those, of the intake's QueueBytes
	LastPut    int64 // ns, when the last fact came; 0: none yet
	Delay      int64 // ns, with which its facts are expected
	HeldBack   int64 // ns, that it has held the others back in all
	HoldCredit int64 // ns, that it may hold them back now
}

// Source is one source of facts. Put is for one goroutine.
type Source struct {
	in       *Intake
	inst     string
	standing func() Standing

	remote bool // another node hands its facts on
	limit  int  // bytes of the queue

	mu      sync.Mutex
	room    *sync.Cond // there is some again, or the source is closed
	queue   []placed
	bytes   int
	closed  bool
	stand   Standing
	began   int64 // when it began to catch up
	last    int64 // time of the last fact, on this node's clock
	lastT   int64 // on its own
	heard   int64 // how far the other node had come when it said the last
	came    int64 // how far the source had come when it was asked last
	delay   int64 // with which facts are expected, at least the Slack
	told    int64 // how far the source says itself that it has come, 0: it does not
	atWork  int64 // when it said so last, or got room that it waited for
	pressed bool  // it waits for room
	seen    int64 // when delay was measured last
	owes    debt  // what the instance has to say of what was seen of it
	credit  int64 // what is left of HoldLimit
	arrival ring
	stats   Stats
	sights  map[string]int64 // the latest time of bytes seen to arrive, by instance, since Take

	due  []placed // whose time has come; of Take's goroutine
	next int      // of due
}

// placed is a fact with its time on this node's clock.
type placed struct {
	*lifecycle.Fact
	at int64
}

// size is what a fact takes in memory.
func size(f *lifecycle.Fact) int {
	n := int(unsafe.Sizeof(*f)) + int(unsafe.Sizeof(lifecycle.Run{}))*(len(f.Pages)+len(f.CopyFrom.Pages)+len(f.CopyTo.Pages))
	if f.Spec != nil {
		n += int(unsafe.Sizeof(*f.Spec)) + int(unsafe.Sizeof(lifecycle.Region{}))*len(f.Spec.Regions)
	}
	return n
}

// Put adds a fact, and waits while the source is full, until ctx ends.
func (s *Source) Put(ctx context.Context, f *lifecycle.Fact) { s.PutAt(ctx, f, f.T) }

// PutAt is Put for a fact whose time on this node's clock is at, in ns. It reports
// whether the fact was taken.
func (s *Source) PutAt(ctx context.Context, f *lifecycle.Fact, at int64) bool {
	now := s.in.cfg.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	n := size(f)
	if why, refused := s.refuse(at, now); refused {
		s.lose(why)
		return false
	}
	s.measure(at, now)
	if s.waitForRoom(ctx, n); s.closed || ctx.Err() != nil {
		s.lose(Closed)
		return false
	}
	s.add(f, at, now)
	return true
}

// Interject adds facts, room or not, that hold from the time on that the source
// has come to: the judge takes them before whatever comes later. It dates them, on
// a clock that is ahead of this node's by offset, in ns.
func (s *Source) Interject(offset int64, facts ...*lifecycle.Fact) {
	s.InterjectFrom(math.MinInt64, offset, facts...)
}

// InterjectFrom is Interject for facts that hold from no earlier than that, in ns of
// this node's clock.
func (s *Source) InterjectFrom(earliest, offset int64, facts ...*lifecycle.Fact) {
	now := s.in.cfg.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	at := max(s.came, s.last, earliest, now-s.in.cfg.Behind.Nanoseconds())
	for _, f := range facts {
		at++ // of one time they would have no order
		f.T = at + offset
		s.add(f, at, now)
	}
}

func (s *Source) add(f *lifecycle.Fact, at, now int64) {
	s.stats.Put++
	s.stats.LastPut = now
	s.last, s.lastT = max(s.last, at), max(s.lastT, f.T)
	s.arrival.add(s.lastT, now)
	s.sees(f, at)
	s.queue = append(s.queue, placed{f, at})
	s.bytes += size(f)
	if len(s.queue) == 1 {
		select {
		case s.in.wake <- struct{}{}:
		default:
		}
	}
}

func (s *Source) refuse(t, now int64) (why Loss, refused bool) {
	switch {
	case t > now+s.in.cfg.Ahead.Nanoseconds():
		return Ahead, true
	case t < now-s.in.cfg.Behind.Nanoseconds():
		return Behind, true
	}
	return 0, false
}

func (s *Source) lose(why Loss) {
	s.stats.Put++
	s.stats.Lost[why]++
}

// waitForRoom waits until n more bytes fit, or nothing else waits.
func (s *Source) waitForRoom(ctx context.Context, n int) {
	full := func() bool { return s.bytes > 0 && s.bytes+n > s.limit }
	if !full() {
		return
	}
	defer context.AfterFunc(ctx, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.room.Broadcast()
	})()
	s.pressed = true
	for full() && !s.closed && ctx.Err() == nil {
		s.room.Wait()
	}
	s.pressed, s.atWork = false, s.in.cfg.Now()
}

// measure learns with which delay facts come: half as much again as the longest of
// late.
func (s *Source) measure(t, now int64) {
	if s.stand != Live {
		return
	}
	s.decay(now)
	if s.remote {
		now = s.heard // the way here is not the engine's delay
	}
	s.delay = min(max(s.delay, (now-t)*3/2), MaxDelay.Nanoseconds())
}

func (s *Source) decay(now int64) {
	if now > s.seen {
		s.delay = max(halved(s.delay, now-s.seen), s.in.cfg.Slack.Nanoseconds())
		s.seen = now
	}
}

// halving is the time in which an expected delay falls to half.
const halving = int64(250 * time.Millisecond)

// halved is v after it has lost half of itself each time that halving passed.
func halved(v, passed int64) int64 {
	for ; passed >= halving && v > 0; passed -= halving {
		v /= 2
	}
	if passed <= 0 {
		return v
	}
	return int64(float64(v) * (1 - float64(passed)/float64(2*halving)))
}

// reached is how far the source has come at now; passed is since the last time.
func (s *Source) reached(now, passed, slack int64) int64 {
	stand := s.standing()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.came = s.reach(stand, now, passed, slack)
	return s.came
}

func (s *Source) reach(stand Standing, now, passed, slack int64) int64 {
	if s.closed {
		stand = Away
	}
	if stand == CatchingUp && s.stand != CatchingUp {
		s.began = now
	}
	s.stand = stand
	s.decay(now)
	if stand == CatchingUp && s.credit > 0 && !s.quiet(now) {
		s.credit -= passed
		s.stats.HeldBack += passed
		return s.last
	}
	if stand != CatchingUp {
		s.credit = min(s.credit+passed/10, HoldLimit.Nanoseconds())
	}
	if stand == Away {
		return now
	}
	switch {
	case s.remote && s.told != 0:
		return s.told
	case s.remote:
		return max(s.last, min(now, s.heard)-max(s.delay, slack))
	case s.told != 0 && (s.pressed || now-s.atWork < SilenceLimit.Nanoseconds()):
		return max(s.told, s.last) // behind, perhaps, and at work
	case s.told != 0:
		return max(s.told, s.last, now-SilenceLimit.Nanoseconds())
	}
	if s.owes.holds(s.last, now) {
		s.stats.HeldBack += passed
		return s.last
	}
	return max(s.last, now-max(s.delay, slack))
}

// Heard tells that the other node had come to t, in ns of this node's clock, when
// it said what is put next: time passes no further than that, less the delay with
// which facts came to it.
func (s *Source) Heard(t int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.heard = max(s.heard, t)
}

// Reached tells that every fact of before t, in ns, was put in, in the order of their
// times: the source then is waited for by its own word. Unless it is remote, that ends
// once it has said so no more for SilenceLimit; one that has a backlog and works it off, or
// waits for room here, makes nobody's facts late.
func (s *Source) Reached(t int64) {
	now := s.in.cfg.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.told, s.atWork = max(s.told, t), now
}

// Came is how far the source had come, in ns, when it was asked last: the judge may
// have let time pass until there.
func (s *Source) Came() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.came
}

// quiet reports whether a source that catches up has said something, and then
// nothing for a while: it is at its end, and the next news may be far.
func (s *Source) quiet(now int64) bool {
	return s.stats.LastPut > s.began && now-s.stats.LastPut > quietAfter.Nanoseconds()
}

// fetch moves the facts whose time has come to due.
func (s *Source) fetch(low int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for n < len(s.queue) && s.queue[n].at <= low {
		s.bytes -= size(s.queue[n].Fact)
		n++
	}
	s.due, s.next = append(s.due[:0], s.queue[:n]...), 0
	rest := copy(s.queue, s.queue[n:])
	clear(s.queue[rest:])
	s.queue = s.queue[:rest]
	s.stats.Taken += uint64(n)
	if n > 0 {
		s.room.Broadcast()
	}
}

// pop is the first fact that is due.
func (s *Source) pop() *lifecycle.Fact {
	f := s.due[s.next].Fact
	s.due[s.next] = placed{}
	s.next++
	return f
}

// settled says how many facts wait, and whether no more will come.
func (s *Source) settled() (waiting int, gone bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.queue), s.closed
}

// Close ends the source: what waits is still taken, what comes is lost.
func (s *Source) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.room.Broadcast()
	select {
	case s.in.wake <- struct{}{}:
	default:
	}
}

func (s *Source) arrived(t int64) (at int64, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.arrival.at(t)
}

// Stats returns the counts so far.
func (s *Source) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.stats
	out.Waiting, out.Bytes, out.Delay, out.HoldCredit = len(s.queue), s.bytes, s.delay, s.credit
	return out
}
