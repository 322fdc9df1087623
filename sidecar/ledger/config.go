package ledger

import "time"

// Config is what the rules may be told. The zero Config is the default one.
type Config struct {
	// Settle is how long after its last transfer a handoff is judged. Default 20 ms.
	Settle time.Duration
	// Order is how long facts may take to be put in order, and so how long a read waits
	// for its step to end; at most Settle. Default Settle.
	Order time.Duration
	// Grace is how long an engine's own count of held pages may differ from
	// the ledger's. Default 1 s.
	Grace time.Duration
	// Stall is how long reserved pages may see no progress. Default 30 s.
	Stall time.Duration
	// HoldVerdicts keeps each verdict back for as long as the request is
	// remembered, so that it is said once and for all, as a replay wants it.
	// Otherwise it is said a settle time after the request ended, and said
	// again if later facts show a violation.
	HoldVerdicts bool
	Limits       Limits
}

// Limits bound what a Ledger remembers. Beyond them it forgets, counts what it
// forgot in [Stats], and the requests concerned are unwitnessed. Zero fields
// take the default.
type Limits struct {
	Instances int // instances known; default 1,024. Facts about more are not judged
	Pools     int // pools over all instances; default 4,096
	Pages     int // pages over all pools, 32 bytes each; default 10,485,760
	Requests  int // requests not yet ended; default 131,072. The oldest goes first
	Ended     int // ended requests and rooms remembered; default 8,192. Of rooms, as many as of both
	Transfers int // transfers in one room; default 4,096
	Activity  int // pages that transfers name, over all pools; default 4,194,304
	Fragments int // pieces of partly written pages; default 1,048,576
	Releases  int // earlier references that one request remembers, as runs; default 4,096
	Strays    int // pieces posted where nothing waits for them, and not seen to end, over all pools, as runs; default 65,536. Those of more than a minute ago go first
	PastOwner int // ended transfers that one page remembers; default 4
	Window    int // facts held back to be put in order; default 262,144
	Missing   int // ranges of missing sequence numbers in a stream; default 1,024
	Digests   int // content digests of one room; default 1,024
	Pending   int // reads that wait for their step to end; default 65,536
	Peers     int // peers of an instance in coverage and layout checks; default 4,096
	Samples   int // GPUs and processes with a vram sample, per node; default 4,096
}

// DefaultConfig is what the zero Config stands for.
func DefaultConfig() Config { return Config{}.withDefaults() }

func (c Config) withDefaults() Config {
	orDefault(&c.Settle, 20*time.Millisecond)
	orDefault(&c.Order, c.Settle)
	c.Order = min(c.Order, c.Settle)
	orDefault(&c.Grace, time.Second)
	orDefault(&c.Stall, 30*time.Second)
	l := &c.Limits
	orDefault(&l.Instances, 1<<10)
	orDefault(&l.Pools, 1<<12)
	orDefault(&l.Pages, 10<<20)
	orDefault(&l.Requests, 1<<17)
	orDefault(&l.Ended, 1<<13)
	orDefault(&l.Transfers, 1<<12)
	orDefault(&l.Activity, 4<<20)
	orDefault(&l.Fragments, 1<<20)
	orDefault(&l.Releases, 1<<12)
	orDefault(&l.Strays, 1<<16)
	orDefault(&l.PastOwner, 4)
	orDefault(&l.Window, 1<<18)
	orDefault(&l.Missing, 1<<10)
	orDefault(&l.Digests, 1<<10)
	orDefault(&l.Pending, 1<<16)
	orDefault(&l.Peers, 1<<12)
	orDefault(&l.Samples, 1<<12)
	return c
}

func orDefault[T int | time.Duration](v *T, d T) {
	if *v <= 0 {
		*v = d
	}
}
