package lifecycle

// Bounds of format v1. What is beyond them is refused before memory is taken
// for it.
const (
	// MaxLine is the longest line of a trace file, and the longest msgpack
	// fact, in bytes.
	MaxLine = 4 << 20
	// MaxID is the longest name (inst, req, room, pool, domain, …) in bytes.
	MaxID = 256
	// MaxText is the longest `reason`, in bytes.
	MaxText = 1024
	// MaxPages bounds the pages of a pool, and so every page id.
	MaxPages = 1 << 27
	// MaxRuns is the most runs in one list of pages.
	MaxRuns = 1 << 16
	// MaxList is the most regions, pids or claims in one pool_opened.
	MaxList = 4096
	// MaxTokens bounds every count of tokens.
	MaxTokens = 1 << 40
	// MaxBytes bounds every size of a page, a stride or a registration.
	MaxBytes = 1 << 48
	// MaxTime bounds times and clock offsets, in nanoseconds either side of
	// zero: 146 years, so that a difference of two never overflows.
	MaxTime = 1 << 62
	// maxDepth is how deep the value of an unknown field may nest.
	maxDepth = 32
)
