package scheduler

import (
	"github.com/kvwitness/kvwitness/engine/kvcache"
)

// Room joins the prefill half and the decode half of one request.
type Room uint64

// Peer names the instance on the other side.
type Peer string

// Event is what a Step takes in. What a pointer or slice in it refers to belongs
// to the scheduler from then on.
type Event interface{ event() }

// Submit is a new request.
type Submit struct {
	Req    kvcache.Req
	Room   Room // not looked at in a unified engine, nor are Peers
	Domain kvcache.Domain
	Prompt []int32
	// MaxNew tokens to answer with. Prefill makes one whatever it says.
	MaxNew int
	// Peers of the handoff: on prefill those to send to, on decode the writers.
	Peers []Peer
	// Synthetic: warm-up and health traffic.
	Synthetic bool
	// Drill of this request alone; ignored unless AllowRequestDrill.
	Drill Drill
}

// Abort ends a request from outside. A running transfer runs to its end.
type Abort struct {
	Req    kvcache.Req
	Reason string
}

// Disconnect says that nobody waits for the answer. It never tears a transfer.
type Disconnect struct{ Req kvcache.Req }

// Tick lets time pass.
type Tick struct{}

// Stop: accept nothing more, finish what is here.
type Stop struct{}

// ForwardDone ends the launched step. Results are parallel to Launch.Items; with
// Err, or too few results, the whole step failed.
type ForwardDone struct {
	Step    uint64
	Results []Result
	Err     error
}

// Result of one Item.
type Result struct {
	Token int32             // if the item asked for a sample
	Stop  bool              // the token ends the answer
	Fault *kvcache.TagFault // a page was not what the table took it for
}

// PeerUp: a peer has registered.
type PeerUp struct {
	Peer     Peer
	Capacity int // tokens that its pool can hold
	Layout   Layout
}

// PeerGone: the connection is closed and nothing of the peer can read or write
// here any more, nor anything of ours there. It is about everything that was named
// to the peer so far: report it before anything is named on a new connection.
type PeerGone struct{ Peer Peer }

// Targets are the pages that a decode peer has reserved for a room (prefill).
type Targets struct {
	Room         Room
	Peer         Peer
	Pages        []kvcache.PageID
	Gens         []kvcache.Gen
	Slot         kvcache.PageID // metadata
	SlotGen      kvcache.Gen
	PrefixTokens int // already present there; whole pages
}

// Sent: the transport is finished with a transfer, well or not: nothing of it can
// read here or write there any more (prefill).
type Sent struct {
	Xfer  kvcache.Xfer
	OK    bool
	Fault *kvcache.TagFault // a source page was not what the table took it for
}

// PeerAborted: decode asks to end a room (prefill).
type PeerAborted struct {
	Room   Room
	Peer   Peer
	Reason string
}

// Arrived: bytes of a writer have been counted at the receiver (decode). Count
// pages from First on, indices into the pages of SendTargets; Tokens are in the
// last of them, the others are full.
type Arrived struct {
	Room                 Room
	Peer                 Peer
	First, Count, Tokens int
}

// Completed: a writer said that its part of a room is done or has failed (decode).
type Completed struct {
	Room Room
	Peer Peer
	OK   bool
	// Counted: the transport counts arrivals and has reported them all. If not,
	// all that is known is what the writer says.
	Counted bool
	// HasLength: the message says how much was sent.
	HasLength     bool
	Pages, Tokens int   // from PrefixTokens on
	First         int32 // the answer's first token, from the metadata slot
	Stop          bool  // which ends it
	// Status and Reason of a failure, as the writer gave them.
	Status int
	Reason string
}

// Drained: a writer says that nothing of its can arrive for this room any more
// (decode).
type Drained struct {
	Room Room
	Peer Peer
}

// DigestChecked answers CheckDigest. Ran is false where the peer sent no digest.
type DigestChecked struct {
	Req        kvcache.Req
	Ran, Match bool
}

func (Submit) event()        {}
func (Abort) event()         {}
func (Disconnect) event()    {}
func (Tick) event()          {}
func (Stop) event()          {}
func (ForwardDone) event()   {}
func (PeerUp) event()        {}
func (PeerGone) event()      {}
func (Targets) event()       {}
func (Sent) event()          {}
func (PeerAborted) event()   {}
func (Arrived) event()       {}
func (Completed) event()     {}
func (Drained) event()       {}
func (DigestChecked) event() {}
