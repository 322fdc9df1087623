package lifecycle

// Opt is a value that a fact may leave unsaid: "no data" and "zero" differ.
type Opt[T any] struct {
	V   T
	Has bool
}

// Some is a value that was said.
func Some[T any](v T) Opt[T] { return Opt[T]{v, true} }

// Or returns the value, or otherwise where nothing was said.
func (o Opt[T]) Or(otherwise T) T {
	if o.Has {
		return o.V
	}
	return otherwise
}

// Fact is one line of a trace: one statement about one instance. Which fields
// an event carries is the table of DESIGN section 5; fields that an event does
// not carry are zero. Names (Req, Room, Xfer, …) are text; a trace may write
// them as integers, which are read as their decimal digits.
type Fact struct {
	// What every fact has, and what bytes_moved needs, come first and fill two
	// cache lines (with the 8 bytes that Go's allocator puts before an object
	// of this size): a judge of byte extents waits for memory.
	T        int64  // ns, one clock a node
	Inst     string // the instance it is about
	Src      Src
	Ev       Ev
	Outcome  Outcome     // `status` of a transfer or of bytes
	Seq      Opt[uint64] // per inst, epoch and src, from 0
	Addr     uint64
	Bytes    uint64
	From     string // the instance that the bytes came from
	FromAddr Opt[uint64]
	Xfer     string

	Node  string      // where it was said or seen
	Epoch Opt[uint64] // tells restarts of Inst apart
	Step  Opt[int64]  // the engine's scheduling step
	Room  string
	Req   string

	Pool   string
	Pages  Runs
	Domain Opt[string] // keyed hash; absent is unknown, empty is "shared by all"
	Key    string      // keyed hash of a prefix
	Holder string      // "cache", or empty
	Name   string      // the event's name where Ev is EvUnknown

	PromptTokens Opt[int64]
	PrefixTokens Opt[int64]
	Tokens       Opt[int64]
	Synthetic    bool

	HTTPStatus int64 // `status` of a request
	Finish     Finish
	Reason     string
	By         By

	CopyFrom PageRef // pages_copied
	CopyTo   PageRef

	Side Side
	Peer string
	Op   Op
	Last bool

	Base   uint64
	RKey   Opt[uint64]
	QP     Opt[uint64]
	Memory Memory

	Digest     string
	PromptPage Opt[int64]

	Protection string // `name` of a protection
	State      State

	Of       Src // stream_gap, events_lost, source_coverage, watermark
	Complete bool
	GapFrom  uint64
	GapTo    uint64
	Count    uint64
	Stage    string
	NS       int64 // clock_offset
	Error    int64

	Audit *Audit    // pool_audit
	VRAM  *Usage    // vram_usage
	Spec  *PoolSpec // pool_opened
}

// PageRef names pages of a pool, in pages_copied.
type PageRef struct {
	Pool  string
	Pages Runs
}

// Audit is an engine's own count of a pool, in pages; the four are disjoint.
type Audit struct {
	Free, Cached, Held int64
	PendingDrain       int64
}

// Usage is what the driver says that one process holds on one GPU, in bytes.
type Usage struct {
	GPU        string
	PID        int64
	TotalBytes Opt[uint64]
}

// PoolSpec is what pool_opened says of a pool.
type PoolSpec struct {
	Pages         uint32
	PageTokens    int64 // tokens of one page; 0: not known, as from the wire
	Role          string
	PageBytes     uint64 // bytes of one page over all layers, 0: not said
	ContextTokens Opt[int64]
	NullIDs       Runs
	Owes          Owes
	Window        int64 // tokens, where Owes is OwesWindow
	Since         Since
	Path          Path
	DType         string
	Layers        Opt[Run] // first and count
	KVHeads       int64    // 0: not said
	PIDs          []int64
	Claims        Opt[[]Ev] // absent: all for src engine, none for the others
	Regions       []Region
}

// Region is one buffer of a pool: page p lies at Base + p*Stride and is Bytes
// long, for one layer and part.
type Region struct {
	Base   uint64
	Stride uint64
	Bytes  uint64
	Layer  int64
	Part   string // k, v, kv, index, staging
}

// Success reports whether a request_finished is one: a 2xx that did not end by
// abort or error. A status that was not said counts as 200.
func (f *Fact) Success() bool {
	if f.Ev != RequestFinished || f.Finish == FinishAbort || f.Finish == FinishError {
		return false
	}
	return f.HTTPStatus == 0 || f.HTTPStatus/100 == 2
}
