package kvcache

// PageID is the physical index of a page in its pool.
type PageID uint32

// NullPage is never handed out. Padding in block tables points to it.
const NullPage PageID = 0

// Gen counts how often a page has been handed out. Zero: never.
type Gen uint64

// Req is the engine's handle of a request. Zero is nobody.
type Req uint64

// Xfer names one transfer of one writer or reader. It is the caller's to choose
// and unique while the transfer is open.
type Xfer uint64

// Domain is the isolation that the engine was told to keep (a tenant or a cache
// salt). Empty means shared by all, by intent. It never leaves the process in
// this form: a publisher hashes it.
type Domain string

// Run is a stretch of physical pages: First, First+1, … , Count of them.
type Run struct {
	First PageID
	Count uint32
}

// appendRuns adds pages to runs, in the order given; neighbours become one run.
func appendRuns(runs []Run, pages []PageID) []Run {
	for _, p := range pages {
		if n := len(runs); n > 0 && runs[n-1].First+PageID(runs[n-1].Count) == p {
			runs[n-1].Count++
			continue
		}
		runs = append(runs, Run{First: p, Count: 1})
	}
	return runs
}

// pageState says in which of the pool's four disjoint sets a page is.
type pageState uint8

const (
	stateNull pageState = iota
	stateFree
	stateCached
	stateHeld
	statePending
	stateCount
)

func (s pageState) String() string {
	return [...]string{"null", "free", "cached", "held", "pending drain"}[s]
}
