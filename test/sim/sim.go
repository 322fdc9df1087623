package sim

import (
	"iter"
	"math/rand/v2"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/sidecar/finding"
)

// Times of the simulated cluster, in ns.
const (
	µs = int64(1000)
	ms = 1000 * µs
	// settle is the time within which a judge must put facts in order.
	settle = 20 * ms
	// jitter is the latest that a fact arrives after it was said.
	jitter = 14 * ms
	// hop is the shortest way from one instance to another. It is longer
	// than two clocks may differ after clock_offset.
	hop = 20 * µs
	// skew is the largest error of a clock_offset.
	skew = 2 * µs
)

// Sim makes the facts of one simulated cluster.
type Sim struct {
	Mix  Mix
	Seed uint64
	Hard Hard

	// Strike is the fault to be put in, nil for valid traffic.
	Strike *Strike

	rng           *rand.Rand
	now           int64
	wakes         queue[*proc]
	arriving      queue[*lifecycle.Fact]
	batch         *batch
	together      bool // what is posted is a batch, which is lost as a whole or not at all
	out           func(*lifecycle.Fact) bool
	givenUp       bool
	disordered    bool
	sequences     bool
	epochs        bool
	nodes         []*node
	instances     []*instance
	layout        layout
	pulls         bool
	xferUnique    bool
	sameAddresses bool
	said          int // facts
	requests      int // admitted so far
	live          int
	planned       int // requests in all
	alive         []*request
	acting        *request                   // whose turn it is
	owners        map[*lifecycle.Fact]string // ids of the requests that the facts are of; nil: not kept
	xfers         int
	closing       bool
	expected      map[verdictKey]Expected
	warmAt        int64 // from when on another warm-up may begin in room 0
	blind         int   // blind findings that valid traffic deserves
}

// New prepares a cluster. Nothing has happened yet.
func New(seed uint64, mix Mix) *Sim {
	s := &Sim{Mix: mix, Seed: seed, Hard: Hard{}, rng: rand.New(rand.NewPCG(seed, 0x6b767769746e6573))}
	s.expected = map[verdictKey]Expected{}
	s.disordered = s.chance(mix.Disorder)
	s.sequences = s.chance(mix.Sequences)
	s.epochs = s.sequences && s.chance(0.5) || mix.Restarts > 0
	s.pulls = s.chance(mix.Pull)
	s.xferUnique = s.chance(0.7)
	s.build()
	for _, in := range s.instances {
		s.xferUnique = s.xferUnique || in.staged || in.unnamed
	}
	return s
}

// Trace is a whole simulated trace with what it deserves.
type Trace struct {
	Facts    []*lifecycle.Fact
	Expected map[verdictKey]Expected // the verdicts that it deserves
	Blind    int                     // its findings of kind blind
	Struck   *Strike                 // the fault in it, nil where it is valid
	Hard     Hard
	owners   map[*lifecycle.Fact]string
}

// Run lets n requests live and returns all that was said, in the order of
// its arrival.
func (s *Sim) Run(n int) Trace {
	var facts []*lifecycle.Fact
	s.owners = map[*lifecycle.Fact]string{}
	for f := range s.Facts(n) {
		facts = append(facts, f)
	}
	return Trace{facts, s.expected, s.blind, s.Strike, s.Hard, s.owners}
}

// Facts yields what is said while n requests live, in the order of its
// arrival, without keeping it.
func (s *Sim) Facts(n int) iter.Seq[*lifecycle.Fact] {
	return func(yield func(*lifecycle.Fact) bool) {
		s.out = yield
		s.planned = n
		s.open()
		s.spawn(s.now+jitter, func(p *proc) { s.arrivals(p, n) })
		for !s.givenUp && s.turn() {
			s.arrive(s.now)
		}
		s.giveUp()
		s.arrive(1 << 62)
	}
}

// arrive hands on what has arrived by the given time.
func (s *Sim) arrive(by int64) {
	for !s.givenUp {
		at, some := s.arriving.first()
		if !some || at > by {
			return
		}
		f, _, _ := s.arriving.pop()
		s.givenUp = !s.out(f)
	}
}

// arrivals admits n requests, no more than the cluster can hold at once.
func (s *Sim) arrivals(p *proc, n int) {
	for s.requests < n && !s.givenUp && !s.closing {
		if s.live < 4*len(s.instances) {
			s.requests++
			s.live++
			s.admitSomewhere(s.requests)
		}
		p.sleep(s.between(200*µs, 8*ms))
	}
	s.closing = true
	for s.live > 0 && !s.givenUp {
		p.sleep(ms)
	}
	if s.Strike != nil && s.Strike.Fault.Kind == finding.Blind {
		s.linger(p)
	}
}

func (s *Sim) chance(p float64) bool { return p > 0 && s.rng.Float64() < p }

// between is a random number in [low, high].
func (s *Sim) between(low, high int64) int64 { return low + s.rng.Int64N(high-low+1) }

func (s *Sim) upTo(n int) int { return s.rng.IntN(n + 1) }

func pick[T any](s *Sim, from []T) T { return from[s.rng.IntN(len(from))] }
