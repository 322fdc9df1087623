package peer

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/engine/lifecycle/subscribe"
	"github.com/kvwitness/kvwitness/sidecar/intake"
)

const (
	// firstAsks is how often the peer's time is asked for before anything is followed,
	// every firstAsk; then every nextAsk.
	firstAsks = 8
	firstAsk  = 10 * time.Millisecond
	nextAsk   = time.Second
	// maxOffset is the largest offset that is told, as format v1 has it.
	maxOffset = lifecycle.MaxTime / 4
)

var (
	errBehind = errors.New("what it says is older than the patience")
	errClock  = errors.New("a clock was set, or what was said of it cannot be")
	errUnread = errors.New("the judge did not take its facts in time")
)

// session is one connection to a peer.
type session struct {
	*Link
	conn net.Conn
	in   *frames
	out  *outbox
	node string // the peer's
	dec  *lifecycle.Decoder
	pace pace

	clock   Clock
	told    time.Duration       // the offset that the judge knows
	begun   bool                // the clock is known, and streams are asked for
	come    int64               // how far the peer says that it has come, on this node's clock
	latest  []string            // the instances that are the peer's now
	theirs  map[string]struct{} // that it called its own, once
	ours    map[string]struct{} // that the peer was told to be ours, once
	covered map[path]struct{}

	asking sync.Mutex
	asked  []int64 // when the time was asked for, not answered yet
}

func newSession(l *Link, conn net.Conn) *session {
	return &session{
		Link: l, conn: conn, in: &frames{in: bufio.NewReaderSize(conn, 64<<10)}, out: newOutbox(l.cfg.Now), dec: lifecycle.NewMsgpackDecoder(),
		theirs: map[string]struct{}{}, ours: map[string]struct{}{}, covered: map[path]struct{}{},
	}
}

// run takes in what the peer says until one of them ends it.
func (s *session) run(ctx context.Context, cancel func()) (End, error) {
	var all sync.WaitGroup
	all.Go(func() {
		defer cancel()
		defer s.out.close()
		_ = s.out.sendTo(s.conn)
	})
	all.Go(func() { s.ask(ctx) })
	end, err := s.listen(ctx)
	ending := ctx.Err() != nil // of this sidecar: its judge ends too
	cancel()
	s.out.close()
	if !ending {
		s.lose(end)
	}
	all.Wait()
	return end, err
}

// ask asks for the peer's time, and tells it which instances are this node's.
func (s *session) ask(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for n := 0; ; {
		select {
		case <-ctx.Done():
			return
		case <-s.changed:
			s.tellOwn()
			continue
		case <-timer.C:
		}
		s.asking.Lock()
		if len(s.asked) < clockWindow {
			now := s.cfg.Now()
			s.asked = append(s.asked, now)
			s.out.put(kindPing, asTimes(now))
		}
		s.asking.Unlock()
		wait := firstAsk
		if n++; n > firstAsks {
			wait = nextAsk
		}
		timer.Reset(wait)
	}
}

func (s *session) tellOwn() {
	own := s.cfg.Own()
	own = own[:min(len(own), MaxInstances)]
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.begun {
		return // it is told then
	}
	for _, inst := range own {
		s.ours[inst] = struct{}{}
	}
	s.out.put(kindInstances, asJSON(own))
}

// listen reads until something is not as it should be. The peer is silent once it has
// said nothing for three quarters of the patience at least: the deadline costs more than
// most frames.
func (s *session) listen(ctx context.Context) (End, error) {
	var until time.Time
	for {
		if now := time.Now(); until.Sub(now) < s.cfg.Patience*3/4 {
			until = now.Add(s.cfg.Patience)
			if err := s.conn.SetReadDeadline(until); err != nil {
				return Closed, err
			}
		}
		f, err := s.in.Next()
		switch {
		case errors.Is(err, ErrFrame):
			return Malformed, err
		case errors.Is(err, os.ErrDeadlineExceeded):
			return Silent, fmt.Errorf("it says nothing for %s", s.cfg.Patience)
		case ofCertificates(err):
			return Refused, err
		case err != nil:
			return Closed, err
		}
		s.pace.keep(len(f.content))
		if end, err := s.take(ctx, f); err != nil {
			return end, err
		}
	}
}

func (s *session) take(ctx context.Context, f frame) (End, error) {
	if s.begun && s.cfg.Now()-min(f.sent-s.told.Nanoseconds(), s.come) > s.cfg.Patience.Nanoseconds() {
		return BehindTime, errBehind
	}
	var err error
	switch f.kind {
	case kindPong:
		return s.pong(f)
	case kindInstances:
		var names []string
		if names, err = parseList(f, kindInstances); err == nil {
			return s.announced(names)
		}
	case kindStanding:
		err = s.stands(f)
	case kindMark:
		var times [2]int64
		if times, err = parseTimes(f, kindMark, 1); err == nil {
			return s.marked(f.sent, times[0])
		}
	case kindFact:
		return s.fact(ctx, f.content)
	default:
		err = fmt.Errorf("%w: a frame of kind %d from one who serves", ErrFrame, f.kind)
	}
	return Malformed, err
}

// pong: the peer has said what time it is.
func (s *session) pong(f frame) (End, error) {
	back := s.cfg.Now()
	times, err := parseTimes(f, kindPong, 2)
	if err != nil {
		return Malformed, err
	}
	s.asking.Lock()
	at := slices.Index(s.asked, times[0])
	if at >= 0 {
		s.asked = slices.Delete(s.asked, at, at+1)
	}
	s.asking.Unlock()
	if at < 0 {
		return Malformed, fmt.Errorf("%w: a time that was not asked for", ErrFrame)
	}
	if !s.clock.Add(times[0], times[1], f.sent, back) {
		return ClockJumped, errClock
	}
	r, _ := s.clock.Read(back)
	if max(r.Offset, -r.Offset) > maxOffset {
		return ClockJumped, errClock
	}
	s.mu.Lock()
	s.status.Clock, s.status.Known = r, true
	s.mu.Unlock()
	switch d := r.Offset - s.told; {
	case s.begun && max(d, -d) > r.Error: // what the judge knows cannot be true any more
		s.tellClock(r)
	case !s.begun && s.clock.n >= firstAsks:
		s.begin(r)
	}
	return 0, nil
}

// begin asks for streams, now that their facts can be put in order.
func (s *session) begin(r Reading) {
	s.told, s.come = r.Offset, s.cfg.Now()
	s.seen.Interject(r.Offset.Nanoseconds(), s.clockFact(r))
	s.mu.Lock()
	s.begun, s.status.Connected, s.status.Problem = true, true, ""
	s.mu.Unlock()
	s.cfg.Log.Info("a peer is in sight", "peer", s.cfg.Name, "node", s.node, "clock_offset", r.Offset, "error", r.Error)
	s.tellOwn()
	s.follow()
}

// tellClock tells the judge a better offset, before all facts that are read by it.
func (s *session) tellClock(r Reading) {
	s.told = r.Offset
	s.seen.Interject(r.Offset.Nanoseconds(), s.clockFact(r))
	for _, o := range s.remotes {
		if o.following {
			o.src.Interject(r.Offset.Nanoseconds(), s.clockFact(r))
		}
	}
}

func (s *session) clockFact(r Reading) *lifecycle.Fact {
	return &lifecycle.Fact{
		Node: s.node, Src: lifecycle.Sidecar, Ev: lifecycle.ClockOffset, NS: r.Offset.Nanoseconds(), Error: r.Error.Nanoseconds(),
	}
}

// announced: these are the peer's own instances now.
func (s *session) announced(names []string) (End, error) {
	for _, r := range s.remotes {
		if r.following && !slices.Contains(names, r.inst) {
			r.lose(s.cfg.Node, "the peer does not follow it any more", s.fresh())
		}
	}
	for _, name := range names {
		s.theirs[name] = struct{}{}
		if s.remotes[name] != nil || !s.cfg.Claim(name) {
			continue
		}
		if len(s.remotes) >= maxRemotes {
			return TooMuch, fmt.Errorf("it has called %d instances its own; restart the sidecar to follow others", len(s.remotes))
		}
		s.mu.Lock()
		s.remotes[name] = newRemote(name, s.cfg.In, s.fresh())
		s.mu.Unlock()
	}
	if len(s.theirs) > maxRemotes {
		return TooMuch, errTooMuch
	}
	s.latest = names
	s.met.Store(true)
	if s.begun {
		s.follow()
	}
	return 0, nil
}

// follow asks for the streams of the peer's instances.
func (s *session) follow() {
	var wanted []string
	r, _ := s.clock.Read(s.cfg.Now())
	for _, name := range s.latest {
		o := s.remotes[name]
		if o == nil {
			continue
		}
		wanted = append(wanted, name)
		if !o.following {
			o.begin()
			o.src.Heard(s.come)
			o.src.Interject(s.told.Nanoseconds(), s.clockFact(Reading{Offset: s.told, Error: r.Error}))
		}
	}
	s.mu.Lock()
	s.status.Following = len(wanted)
	s.mu.Unlock()
	s.out.put(kindFollow, asJSON(wanted))
}

// stands: a stream is as far as that.
func (s *session) stands(f frame) error {
	inst, state, err := parseStanding(f)
	if err != nil {
		return err
	}
	if r := s.remotes[inst]; r != nil && r.following {
		stand := intake.Live // an engine that is not there has nothing to say, as one that is silent
		if state == subscribe.CatchingUp {
			stand = intake.CatchingUp
		}
		r.stand.Store(uint32(stand))
	}
	return nil
}

// marked: the peer has come to a time of its clock, and its probe to another.
func (s *session) marked(come, reached int64) (End, error) {
	if !s.begun {
		return 0, nil
	}
	s.come = max(s.come, come-s.told.Nanoseconds())
	for _, r := range s.remotes {
		r.src.Heard(s.come)
	}
	if reached == 0 {
		s.unsee("the peer has no probe")
		return 0, nil
	}
	at := reached - s.told.Nanoseconds()
	if s.cfg.Now()-at > s.cfg.Patience.Nanoseconds() {
		return BehindTime, fmt.Errorf("its probe: %w", errBehind)
	}
	s.seen.Reached(at)
	s.live.Store(true)
	return 0, nil
}

// unsee tells the judge that nobody sees what the peer's engines write here, and then
// lets time pass without the peer's probe.
func (s *session) unsee(why string) {
	for p := range s.covered {
		s.seen.Interject(0, noSight(0, s.cfg.Node, p, why))
	}
	clear(s.covered)
	s.live.Store(false)
}

// lose tells the judge that the peer is out of sight.
func (s *session) lose(end End) {
	why := "the connection to " + s.cfg.Name + " ended: " + end.String()
	s.unsee(why)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.remotes {
		r.lose(s.cfg.Node, why, s.fresh())
	}
	s.status.Connected, s.status.Following, s.status.Known = false, 0, false
}
