package worker

import (
	"log/slog"
	"time"

	"github.com/kvwitness/kvwitness/engine/backend"
	"github.com/kvwitness/kvwitness/engine/backend/cpu"
	"github.com/kvwitness/kvwitness/engine/lifecycle/publish"
	"github.com/kvwitness/kvwitness/engine/model"
	"github.com/kvwitness/kvwitness/engine/scheduler"
	"github.com/kvwitness/kvwitness/kernels/reference"
)

// Config of an engine process. Zero durations mean no limit.
type Config struct {
	Role scheduler.Role
	// Model that is computed; nil: the built-in one. It is not closed here.
	Model *model.Model
	// Open makes the backend; nil: one on the CPU.
	Open func(n model.Network, pages, pageTokens int, d reference.DType) (backend.Backend, error)
	// Instance is the name under which facts about this process are told.
	Instance string
	// Pages in all, the null page included, of PageTokens tokens each.
	Pages, PageTokens int
	DType             reference.DType
	// Slots is the number of metadata slots; 0: twice MaxRunning.
	Slots int
	// Rank of Ranks prefill processes that bring a share of each page. On decode
	// Ranks is how many writers each request has.
	Rank, Ranks int

	ContextTokens int
	LowerContext  bool
	MaxQueued     int
	MaxRunning    int
	BatchTokens   int
	ChunkTokens   int
	// BatchPages bounds the pages of one transfer (prefill).
	BatchPages            int
	SlowestPagesPerSecond float64

	BootstrapTimeout, QueueTimeout, TransferTimeout, DrainTimeout time.Duration

	// Drill of the whole process; Keep stays on in spite of it. Off is switched off
	// besides what the drill switches off.
	Drill             scheduler.Drill
	Keep, Off         []scheduler.Protection
	DrillEvery        int
	AllowRequestDrill bool
	DrillDelay        time.Duration
	// Scrub zeroes pages before they are named to a peer, so that a drill finds no
	// old bytes to read.
	Scrub bool

	// Witness hears of everything; nil: nobody does.
	Witness *publish.Teller
	// Link makes the way to the peers; nil in a unified engine.
	Link func(*Worker) Link
	Log  *slog.Logger
}

// Link carries out the actions that concern peers. Do is called by the owner of
// the scheduler and must not block; what comes of it returns by Worker.Post, from
// another goroutine. It is told of the end of each request too.
type Link interface {
	Do(scheduler.Action)
	Close() error
}

func (c *Config) complete() {
	if c.Model == nil {
		c.Model = model.Builtin()
	}
	c.Ranks = max(c.Ranks, 1)
	if c.Slots <= 0 {
		c.Slots = 2*c.MaxRunning + 1
	}
	if c.Open == nil {
		c.Open = openCPU
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
}

func openCPU(n model.Network, pages, pageTokens int, d reference.DType) (backend.Backend, error) {
	return cpu.New(n, cpu.Config{Pages: pages, PageTokens: pageTokens, DType: d})
}

// drilled says that faults may be committed here, so that peers may write to pages
// that are being read.
func (c *Config) drilled() bool { return c.Drill != scheduler.NoDrill || c.AllowRequestDrill }

// heads is how many kv heads a page is said to have: the fault of drill
// layout-mismatch is to lay all heads of a token side by side, as if they were one.
func (c *Config) heads(heads int) int {
	if c.Transposed() {
		return 1
	}
	return heads
}

// Transposed says whether pages leave in another layout (drill layout-mismatch).
func (c *Config) Transposed() bool {
	return c.Drill == scheduler.LayoutMismatch && c.Role == scheduler.Prefill
}
