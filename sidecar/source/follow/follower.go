package follow

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/engine/lifecycle/stream"
	"github.com/kvwitness/kvwitness/engine/lifecycle/subscribe"
	"github.com/kvwitness/kvwitness/engine/zmtp"
	"github.com/kvwitness/kvwitness/sidecar/intake"
	"github.com/kvwitness/kvwitness/sidecar/source/engineinfo"
)

// Bounds of a Follower.
const (
	// MaxInstances is how many instances one engine may call itself in all.
	MaxInstances = 64
	// firstPoll is how soon an engine is asked again that did not answer yet; it
	// doubles up to the interval.
	firstPoll = 100 * time.Millisecond
	// snapshotRetry is how long the wait for a snapshot is at most.
	snapshotRetry = 500 * time.Millisecond
	// socketBytes and socketMessages bound what waits in the SUB socket.
	socketBytes    = 32 << 20
	socketMessages = 1_000
)

// Config says whom to follow. Either URL or Instance is set.
type Config struct {
	Name, URL, Instance, Events, Replay string
	Node                                string // where it runs
	Dir                                 string // of the sockets; "": the default one
	Key                                 string // to show at its HTTP endpoints; "": none
	CA                                  string // file of the authorities that may vouch for them; "": the system's
	Poll                                time.Duration
	SnapshotBytes, Pages                int
	Log                                 *slog.Logger
	Now                                 func() int64 // the node's clock in ns, that of the facts
	// Claim is asked whether the engine may be the instance whose stream that is;
	// what is claimed stays so until Release. Both may be nil.
	Claim   func(stream subscribe.Config) bool
	Release func(instance string)
	// Streamless is told that the engine is one that has no lifecycle stream. It may
	// be nil, and be called again.
	Streamless func()
}

// target is what is subscribed to.
type target struct{ instance, events, replay string }

// Follower follows one engine. It is used once.
type Follower struct {
	cfg    Config
	in     *intake.Intake
	poll   *engineinfo.Client // nil: the engine has no URL
	target chan target

	http        announcer
	httpRefused atomic.Uint64 // facts of it, beyond the bounds of one engine

	out  atomic.Uint64 // facts that the subscription handed on
	lost [firstOfIntake]atomic.Uint64

	mu      sync.Mutex
	current *subscribe.Subscriber
	source  *intake.Source
	guard   *guard
	past    Status // counts of the subscriptions before
	polled  engineinfo.Poll
	been    map[string]struct{} // instances that the engine has had
}

// New returns a Follower that is connected to nothing yet.
func New(cfg Config, in *intake.Intake) (*Follower, error) {
	f := &Follower{cfg: cfg, in: in, target: make(chan target, 1), guard: newGuard(cfg.Pages), been: map[string]struct{}{}}
	if cfg.URL != "" {
		var err error
		if f.poll, err = engineinfo.New(engineinfo.Config{URL: cfg.URL, Key: cfg.Key, CA: cfg.CA}); err != nil {
			return nil, err
		}
	}
	return f, nil
}

// Run follows the engine until ctx ends.
func (f *Follower) Run(ctx context.Context) {
	var wg sync.WaitGroup
	defer wg.Wait()
	if f.poll != nil {
		wg.Go(func() { f.pollOn(ctx) })
	}
	if f.cfg.Instance != "" {
		f.aim(target{f.cfg.Instance, f.cfg.Events, f.cfg.Replay})
	}
	var now target
	for {
		if now.instance == "" {
			select {
			case <-ctx.Done():
				return
			case now = <-f.target:
			}
		}
		was := now
		now = f.followOne(ctx, now)
		if ctx.Err() != nil {
			return
		}
		if now.instance == "" && f.cfg.Instance != "" { // no poll names it again
			if sleep(ctx, f.cfg.Poll) != nil {
				return
			}
			now = was
		}
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// followOne follows an instance until ctx ends or another is named.
func (f *Follower) followOne(ctx context.Context, t target) (next target) {
	stream := subscribe.Config{
		Instance: t.instance, Node: f.cfg.Node, Endpoint: t.events, ReplayEndpoint: t.replay, Dir: f.cfg.Dir,
		RetryMax: snapshotRetry, SnapshotBytes: f.cfg.SnapshotBytes,
		Socket: zmtp.Config{ReceiveBytes: socketBytes, ReceiveMessages: socketMessages, Reconnect: zmtp.Backoff{Max: snapshotRetry}},
	}
	if !f.claim(stream) {
		return target{}
	}
	defer f.release(t.instance)
	sub, err := subscribe.New(stream)
	if err != nil {
		f.refuse(err)
		return target{}
	}
	src := f.in.Open(t.instance, func() intake.Standing { return standing(sub.Stats()) })
	f.begin(t, sub, src)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- sub.Run(ctx, func(fact *lifecycle.Fact) { f.take(ctx, src, fact) }) }()
	next, err = f.another(t, ended)
	cancel()
	if next.instance != "" {
		<-ended
	} else if !errors.Is(err, context.Canceled) {
		f.refuse(err)
	}
	src.Close()
	f.end(sub, src)
	return next
}

// another waits until something else is to be followed than now, or the
// subscription has ended.
func (f *Follower) another(now target, ended <-chan error) (next target, err error) {
	for {
		select {
		case next = <-f.target:
			if next != now {
				return next, nil
			}
		case err := <-ended:
			return target{}, err
		}
	}
}

// standing is how far a subscription is, for the order of facts.
func standing(st subscribe.Stats) intake.Standing {
	switch {
	case st.State == subscribe.Live:
		return intake.Live
	case st.Socket.Peers > 0:
		return intake.CatchingUp // it is there, and its snapshot is on its way
	}
	return intake.Away
}

func (f *Follower) take(ctx context.Context, src *intake.Source, fact *lifecycle.Fact) {
	f.out.Add(1)
	if why, refused := f.guard.pass(fact); refused {
		f.lost[why].Add(1)
		return
	}
	src.Put(ctx, fact)
}

// claim reports whether the engine may be the instance of that stream.
func (f *Follower) claim(stream subscribe.Config) bool {
	f.mu.Lock()
	_, known := f.been[stream.Instance]
	n := len(f.been)
	f.mu.Unlock()
	switch {
	case !known && n >= MaxInstances:
		f.refuse(fmt.Errorf("it has called itself %d instances; restart the sidecar to follow another", n))
	case f.cfg.Claim != nil && !f.cfg.Claim(stream):
		f.refuse(errors.New("its instance is followed under another name"))
	default:
		return true
	}
	return false
}

func (f *Follower) release(instance string) {
	if f.cfg.Release != nil {
		f.cfg.Release(instance)
	}
}

// refuse says, once for each reason, why the engine cannot be followed.
func (f *Follower) refuse(why error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.past.Refused != why.Error() {
		f.past.Refused = why.Error()
		f.cfg.Log.Warn("an engine cannot be followed", "engine", f.cfg.Name, "error", why)
	}
}

func (f *Follower) begin(t target, sub *subscribe.Subscriber, src *intake.Source) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.current, f.source = sub, src
	f.past.Instance, f.past.Endpoint, f.past.Refused = t.instance, t.events, ""
	f.been[t.instance] = struct{}{}
	f.past.Instances = len(f.been)
	f.cfg.Log.Info("following", "engine", f.cfg.Name, "instance", t.instance)
}

// end keeps the counts of a subscription that is over.
func (f *Follower) end(sub *subscribe.Subscriber, src *intake.Source) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.past.add(sub.Stats())
	addQueue(&f.past, src.Stats())
	f.current, f.source = nil, nil
}

// addQueue puts the counts of an intake's source on top. What waited when it was
// closed counts as taken: it is taken yet.
func addQueue(s *Status, q intake.Stats) {
	for l, n := range q.Lost {
		s.Lost[firstOfIntake+Loss(l)] += n
	}
	s.Queue.Put += q.Put
	s.Queue.Taken += q.Put
	for _, n := range q.Lost {
		s.Queue.Taken -= n
	}
	s.Queue.LastPut = max(s.Queue.LastPut, q.LastPut)
	s.Queue.HeldBack += q.HeldBack
}

// Status returns how it stands. It may be called while Run runs.
func (f *Follower) Status() Status {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.past
	s.Name, s.Poll = f.cfg.Name, f.polled
	out := f.out.Load()
	if f.current != nil {
		q := f.source.Stats() // before the subscription's, so that nothing counts twice
		addQueue(&s, q)
		s.Queue.Taken -= uint64(q.Waiting)
		s.Queue.Waiting, s.Queue.Bytes, s.Queue.Delay, s.Queue.HoldCredit = q.Waiting, q.Bytes, q.Delay, q.HoldCredit
		st := f.current.Stats()
		s.add(st)
		s.State, s.Epoch = st.State, st.Epoch
		s.Socket = Fullness{st.Socket.ReceiveBytes, socketBytes}
	}
	for l := range f.lost {
		s.Lost[l] += f.lost[l].Load()
	}
	s.Handled = s.Handled - min(s.Handled, out) + s.Queue.Taken
	f.addAnnounced(&s)
	s.Said = f.guard.read()
	return s
}

// aim names what is to be followed from now on.
func (f *Follower) aim(t target) {
	select {
	case <-f.target: // an older one that nobody has taken
	default:
	}
	f.target <- t
}

// pollOn asks the engine at each interval, more often until it answers.
func (f *Follower) pollOn(ctx context.Context) {
	defer func() {
		if f.http.source != nil {
			f.http.source.Close()
		}
	}()
	wait := firstPoll
	for {
		answered := f.pollOnce(ctx)
		if wait = min(2*wait, f.cfg.Poll); answered {
			wait = f.cfg.Poll
		}
		if sleep(ctx, wait) != nil {
			return
		}
	}
}

// pollOnce asks the engine and reports whether it is known now what to follow.
func (f *Follower) pollOnce(ctx context.Context) bool {
	f.mu.Lock()
	before := f.polled
	f.mu.Unlock()
	after := f.poll.Ask(ctx, before)
	if ctx.Err() != nil {
		return false
	}
	f.mu.Lock()
	f.polled = after
	f.mu.Unlock()
	if err := errors.Join(after.Errors[:]...); err != nil {
		f.cfg.Log.Debug("an engine was asked in vain", "engine", f.cfg.Name, "error", err)
	}
	if !after.Fresh {
		return false
	}
	f.announce(ctx, &after.Info)
	if f.cfg.Instance != "" || after.Instance == "" {
		return true
	}
	if after.Errors[engineinfo.ServerInfo] != nil {
		return false
	}
	t, err := f.discovered(&after.Info)
	if err != nil {
		f.refuse(err)
		return false
	}
	f.aim(t)
	return true
}

var errEndpoint = errors.New("the endpoint that the engine names is not that of its instance: name its instance, events and replay in the configuration")

// discovered is what an engine says that it is. An endpoint that it names must
// be the file that its instance's socket has.
func (f *Follower) discovered(p *engineinfo.Info) (target, error) {
	t := target{p.Instance, f.cfg.Events, f.cfg.Replay}
	if t.events != "" || p.Events == "" {
		return t, nil
	}
	path, ipc := strings.CutPrefix(p.Events, "ipc://")
	events, replay, err := stream.Endpoints(filepath.Dir(path), p.Instance)
	if !ipc || err != nil || events != p.Events {
		return t, errEndpoint
	}
	t.events, t.replay = events, replay
	return t, nil
}
