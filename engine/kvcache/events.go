package kvcache

// At dates a transition: Now in nanoseconds of the node's clock, Step the
// engine's scheduling step. Reads and writes carry the step they were launched in.
type At struct {
	Now  int64
	Step uint64
}

// Writer says what put bytes into a page.
type Writer uint8

const (
	// ByForward is a forward pass of this engine.
	ByForward Writer = iota
	// ByTransfer is a peer.
	ByTransfer
)

// Events receives every transition of one pool, in order, from the goroutine that
// drives it. Slices are valid only during the call. An implementation must not
// block and must not call back into the pool.
//
// Keys are parallel to the pages of the runs, in order: the keyed hash of the
// prefix that ends with that page.
type Events interface {
	// Reserved: a new generation of each page begins, held by req.
	Reserved(at At, req Req, pages []Run)
	// Shared: req took a reference on pages of the prefix cache. The domain is the
	// request's, and the keys are those it asked for.
	Shared(at At, req Req, domain Domain, pages []Run, keys []Key)
	// Written: bytes were put into pages; tokens are in the last of them, the
	// others are full.
	Written(at At, req Req, by Writer, pages []Run, tokens int)
	// Read: attention of req reads the pages.
	Read(at At, req Req, pages []Run)
	// Copied: content and written state of from go to to, page by page.
	Copied(at At, req Req, from, to []Run)
	// Cached: the prefix cache took a reference; domain is that of the pages.
	Cached(at At, req Req, domain Domain, pages []Run, keys []Key)
	// Released: req's reference ended.
	Released(at At, req Req, pages []Run)
	// Evicted: the prefix cache's reference ended.
	Evicted(at At, pages []Run)
}

// silent is the Events of a pool that nobody listens to.
type silent struct{}

func (silent) Reserved(At, Req, []Run)              {}
func (silent) Shared(At, Req, Domain, []Run, []Key) {}
func (silent) Written(At, Req, Writer, []Run, int)  {}
func (silent) Read(At, Req, []Run)                  {}
func (silent) Copied(At, Req, []Run, []Run)         {}
func (silent) Cached(At, Req, Domain, []Run, []Key) {}
func (silent) Released(At, Req, []Run)              {}
func (silent) Evicted(At, []Run)                    {}
