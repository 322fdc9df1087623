package scheduler

import (
	"errors"
	"fmt"
	"time"

	"github.com/kvwitness/kvwitness/engine/kvcache"
)

// Role of an engine process.
type Role uint8

const (
	Unified Role = iota
	Prefill
	Decode
)

func (r Role) String() string { return [...]string{"unified", "prefill", "decode"}[r] }

// Limits on what others can make a scheduler remember.
const (
	// MaxDomainBytes bounds a domain.
	MaxDomainBytes = 256
	// MaxPeers bounds the peers of one request, and those that are up.
	MaxPeers = 256
	// MaxEndedRooms is how many rooms are remembered after their end, to answer
	// messages that crossed it.
	MaxEndedRooms = 4096
	// MaxEarlyTargets bounds targets that came before their request.
	MaxEarlyTargets = 1024
)

var (
	// ErrContextExceedsPool: the declared context cannot be held.
	ErrContextExceedsPool = errors.New("the declared context is longer than the pool can hold: enlarge the pool, declare less, or allow the limit to be lowered")
	// ErrBatchCannotDrain: a batch in flight outlives the release time-out.
	ErrBatchCannotDrain = errors.New("a transfer batch does not drain within the time-out: shorten the batch or lengthen the time-out")
	// ErrLayout: the peer's pages do not mean the same bytes.
	ErrLayout = errors.New("the peer's page layout differs")
)

// Layout is what must be equal for a page's bytes to mean the same on both sides.
type Layout struct {
	PageTokens    int
	DType         string // normalised
	BytesPerToken int    // of one layer and part
	Layers        int
	KVHeads       int
}

// Config of a scheduler. Durations of 0 mean: no limit.
type Config struct {
	Role Role
	// ContextTokens is the declared context: prompt and answer together.
	ContextTokens int
	// LowerContext: start with a lower limit rather than refuse to.
	LowerContext bool
	// MaxQueued requests that are not running; beyond it, 429.
	MaxQueued int
	// MaxRunning requests in one batch.
	MaxRunning int
	// BatchTokens is the budget of one forward pass.
	BatchTokens int
	// ChunkTokens bounds what one request computes in one pass. 0: BatchTokens.
	ChunkTokens int
	// BootstrapTimeout: how long prefill waits for decode's pages.
	BootstrapTimeout time.Duration
	// QueueTimeout: how long a request may wait for its first page.
	QueueTimeout time.Duration
	// TransferTimeout: how long a handoff may make no progress.
	TransferTimeout time.Duration
	// SlowestPagesPerSecond is what a transfer moves at worst. With it, New refuses a
	// prefill pool whose batches could not drain within its DrainTimeout. 0: not
	// checked.
	SlowestPagesPerSecond float64
	// Layout of this instance's pages, compared with that of each peer.
	Layout Layout
	// Protections that are on. The drill's are taken off by New.
	Protections Protections
	// Drill of the whole process.
	Drill Drill
	// Keep lists protections that stay on in spite of a drill, to show that each of
	// them alone stops it.
	Keep []Protection
	// DrillEvery: of so many requests one commits the fault, the first. 0: every one.
	// The protections are off for all of them, so that the others can be its victims.
	// A drill that both sides commit needs every request, or a Submit that names it.
	DrillEvery int
	// AllowRequestDrill lets a Submit name a drill of its own.
	AllowRequestDrill bool
	// DrillDelay is how long a drilled transfer runs before early-release gives it
	// up, and how long late-chunk waits after it said drained.
	DrillDelay time.Duration
	// Events listens; nil: nobody does.
	Events Events
	// Verify checks the scheduler's invariants after each step, and panics with a
	// *kvcache.InvariantError. The pools have their own switch.
	Verify bool
}

func (c *Config) complete() {
	if c.ChunkTokens <= 0 {
		c.ChunkTokens = c.BatchTokens
	}
	if c.Events == nil {
		c.Events = silent{}
	}
	c.DrillEvery = max(c.DrillEvery, 1)
	c.Protections = c.without(c.Protections, c.Drill)
}

// without switches off what would stop d, except what is to be kept.
func (c *Config) without(p Protections, d Drill) Protections {
	off := p.Without(d.Spec().Off...)
	for _, k := range c.Keep {
		off[k] = p[k]
	}
	return off
}

// check refuses what cannot work, and returns the effective context limit.
func (c *Config) check(kv *kvcache.Pool) (limit int, err error) {
	if c.Role > Decode || c.Drill >= numDrills {
		return 0, fmt.Errorf("configuring the scheduler: role %d or drill %d does not exist", c.Role, c.Drill)
	}
	for name, n := range map[string]int{"ContextTokens": c.ContextTokens, "MaxQueued": c.MaxQueued, "MaxRunning": c.MaxRunning, "BatchTokens": c.BatchTokens} {
		if n < 1 {
			return 0, fmt.Errorf("configuring the scheduler: %s is %d, want at least 1", name, n)
		}
	}
	pool := kv.Config()
	if c.Role == Prefill && c.SlowestPagesPerSecond > 0 && pool.DrainTimeout > 0 {
		if most := int(c.SlowestPagesPerSecond * pool.DrainTimeout.Seconds()); pool.BatchPages > most {
			return 0, fmt.Errorf("configuring the scheduler: %d pages a batch, %d drain within %v: %w", pool.BatchPages, most, pool.DrainTimeout, ErrBatchCannotDrain)
		}
	}
	limit = c.ContextTokens
	if c.Protections[PoolGate] && limit > kv.Capacity() {
		if !c.LowerContext {
			return 0, fmt.Errorf("configuring the scheduler: context of %d tokens, pool of %d: %w", limit, kv.Capacity(), ErrContextExceedsPool)
		}
		limit = kv.Capacity()
	}
	return limit, nil
}
