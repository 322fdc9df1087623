package intake

import (
	"math"
	"slices"
	"sync"
	"time"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
)

// Bounds of what sources may do to each other.
const (
	// DefaultSlack is the delay with which facts are expected at least: engines
	// tell what happened in turns of a millisecond.
	DefaultSlack = 3 * time.Millisecond
	// FirstDelay is expected of a source of which nothing is known yet.
	FirstDelay = 10 * time.Millisecond
	// MaxDelay is the longest delay that is waited for: on a node that is short of
	// processors an engine may be heard that late, and its silence would accuse.
	MaxDelay = time.Second
	// SilenceLimit is how long a source that says itself how far it has come is waited
	// for when it says nothing. Its owner has given it up before, and said what is
	// not seen.
	SilenceLimit = 25 * time.Second
	// quietAfter is how long a source that catches up says nothing at its end.
	quietAfter = 250 * time.Millisecond
	// HoldLimit is how long a source that catches up may hold the others back; a
	// tenth of the time that passes otherwise is given back to it.
	HoldLimit = time.Second
	// DefaultQueueBytes bounds what waits of one source, as its facts lie in memory.
	DefaultQueueBytes = 8 << 20
)

// Config says what the facts are measured by. Zero fields mean their defaults.
type Config struct {
	// Now is the node's clock in ns, that of the facts.
	Now func() int64
	// Slack is the delay with which facts are expected at least, at most MaxDelay.
	Slack time.Duration
	// Ahead and Behind are how far from Now a fact may be. Defaults 50 ms, 30 s.
	Ahead, Behind time.Duration
	// QueueBytes bounds what waits of one source.
	QueueBytes int
}

// Intake joins sources. Put and Open may be called from any goroutine; Take by
// one.
type Intake struct {
	cfg  Config
	wake chan struct{}

	mu      sync.Mutex
	sources []*Source

	sights map[string]int64 // of all sources, since the last Take

	before int64 // Now of the last Take: what was sent until then has come by now
	low    int64 // how far time has come
	slack  int64 // what the caller's oversleeping makes everybody's delay at least
}

// New returns an Intake without sources.
func New(cfg Config) *Intake {
	if cfg.Slack <= 0 {
		cfg.Slack = DefaultSlack
	}
	cfg.Slack = min(cfg.Slack, MaxDelay)
	if cfg.Ahead <= 0 {
		cfg.Ahead = 50 * time.Millisecond
	}
	if cfg.Behind <= 0 {
		cfg.Behind = 30 * time.Second
	}
	if cfg.QueueBytes <= 0 {
		cfg.QueueBytes = DefaultQueueBytes
	}
	return &Intake{cfg: cfg, wake: make(chan struct{}, 1), sights: map[string]int64{}, before: cfg.Now(), low: math.MinInt64}
}

// Wake is sent to when facts wait that were not there before.
func (in *Intake) Wake() <-chan struct{} { return in.wake }

// Open adds a source of facts about inst. standing is asked at each Take how far
// it is.
func (in *Intake) Open(inst string, standing func() Standing) *Source {
	return in.open(&Source{inst: inst, standing: standing, limit: in.cfg.QueueBytes})
}

// OpenRemote adds a source of facts that another node hands on. While it is live it
// has come as far as [Source.Heard] or [Source.Reached] says and no further, however
// long that takes: its owner, who hears nothing for too long, must interject what
// follows from that and then let it be away. At most bytes of its facts wait.
func (in *Intake) OpenRemote(inst string, bytes int, standing func() Standing) *Source {
	return in.open(&Source{inst: inst, standing: standing, remote: true, limit: bytes})
}

func (in *Intake) open(s *Source) *Source {
	s.in, s.delay, s.credit, s.seen = in, max(FirstDelay, in.cfg.Slack).Nanoseconds(), HoldLimit.Nanoseconds(), in.cfg.Now()
	s.last, s.lastT, s.came = math.MinInt64, math.MinInt64, math.MinInt64
	s.room, s.sights = sync.NewCond(&s.mu), map[string]int64{}
	s.owes = debt{sight: math.MinInt64, patience: MaxDelay.Nanoseconds()}
	in.mu.Lock()
	defer in.mu.Unlock()
	in.sources = append(in.sources, s)
	return s
}

func (in *Intake) remove(s *Source) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.sources = slices.DeleteFunc(in.sources, func(o *Source) bool { return o == s })
}

// Take calls each with the facts whose time has come, in order, and returns how
// far time has come, in ns: until there the judge may let it pass. more reports
// whether facts still wait.
func (in *Intake) Take(each func(*lifecycle.Fact)) (low int64, more bool) {
	in.mu.Lock()
	sources := slices.Clone(in.sources)
	in.mu.Unlock()
	now := in.cfg.Now()
	in.share(sources)
	in.low = max(in.low, in.reached(sources, in.before, now-in.before))
	in.before = now
	for _, s := range sources {
		s.fetch(in.low)
	}
	for next := earliest(sources); next != nil; next = earliest(sources) {
		each(next.pop())
	}
	for _, s := range sources {
		waiting, gone := s.settled()
		more = more || waiting > 0
		if gone && waiting == 0 {
			in.remove(s)
		}
	}
	return in.low, more
}

// Overslept tells that the caller of Take woke so much later than it wanted to.
func (in *Intake) Overslept(by time.Duration) {
	in.slack = max(in.slack, min(by, MaxDelay).Nanoseconds())
}

// reached is the least that the sources have reached at now.
func (in *Intake) reached(sources []*Source, now, passed int64) int64 {
	in.slack = max(halved(in.slack, passed), in.cfg.Slack.Nanoseconds())
	low := now - in.slack
	for _, s := range sources {
		low = min(low, s.reached(now, passed, in.slack))
	}
	return low
}

// earliest is the source whose next fact is; nil: no fact's time has come.
func earliest(sources []*Source) (first *Source) {
	for _, s := range sources {
		if s.next < len(s.due) && (first == nil || s.due[s.next].at < first.due[first.next].at) {
			first = s
		}
	}
	return first
}

// Arrived is when the fact of that time about that instance came, in ns, if it
// is still known: the source of the instance is asked first, then the others.
func (in *Intake) Arrived(inst string, t int64) (at int64, known bool) {
	in.mu.Lock()
	sources := slices.Clone(in.sources)
	in.mu.Unlock()
	for _, own := range [...]bool{true, false} {
		for _, s := range sources {
			if (s.inst == inst) != own {
				continue
			}
			if at, known := s.arrived(t); known {
				return at, true
			}
		}
	}
	return 0, false
}
