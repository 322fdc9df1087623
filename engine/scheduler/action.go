package scheduler

import "github.com/kvwitness/kvwitness/engine/kvcache"

// Action is what a Step asks for. Slices in it are read only; those of a Launch
// stay valid until its ForwardDone, the others for good.
type Action interface{ action() }

// Reject answers a request that never held anything.
type Reject struct {
	Req    kvcache.Req
	Status int // of HTTP
	Err    error
}

// Token is the next token of an answer.
type Token struct {
	Req   kvcache.Req
	Token int32
}

// Answer ends a request that was admitted.
type Answer struct {
	Req     kvcache.Req
	Outcome Outcome
}

// Retracted: a running request gave its pages up and will re-enter.
type Retracted struct{ Req kvcache.Req }

// Launch is one forward pass: first the copies, then the items side by side.
type Launch struct {
	Step   uint64
	Copies []Copy
	Items  []Item
}

// Copy moves one page's bytes before the pass; the copier stamps To.
type Copy struct {
	Req kvcache.Req
	kvcache.Copy
}

// Item is what a pass does for one request: compute Tokens, put their keys and
// values at positions Start, Start+1, … of the table, and attend to everything
// from position 0 on. The pass stamps the pages that it writes.
type Item struct {
	Req    kvcache.Req
	Start  int
	Tokens []int32
	Pages  []kvcache.PageID
	Gens   []kvcache.Gen
	// ReadAll: the last token attends in every layer. Else the last layer's pages are
	// not read: nobody needs what would come of it.
	ReadAll bool
	// Sample: choose the token that follows the last one. With it comes ReadAll.
	Sample bool
	// CheckTags before and after reading; on a fault choose nothing and report it.
	CheckTags bool
}

// SendTargets tells a writer which pages are reserved for it (decode).
type SendTargets struct {
	Req          kvcache.Req
	Room         Room
	Peer         Peer
	Xfer         kvcache.Xfer
	Pages        []kvcache.PageID
	Gens         []kvcache.Gen
	Slot         kvcache.PageID
	SlotGen      kvcache.Gen
	PrefixTokens int
}

// StartTransfer moves Source to Target, page by page, and stamps each target with
// its generation after its bytes (prefill). Answered by Sent.
type StartTransfer struct {
	Req        kvcache.Req
	Room       Room
	Peer       Peer
	Xfer       kvcache.Xfer
	Source     []kvcache.PageID
	SourceGens []kvcache.Gen
	Target     []kvcache.PageID
	TargetGens []kvcache.Gen
	// First is the index of Target[0] among the pages of the room's Targets.
	First int
	// Tokens in the last page; the others are full.
	Tokens int
	// CheckTags of the source before and after; on a fault stamp nothing.
	CheckTags bool
	// Last batch: the metadata goes with it.
	Last          bool
	Slot          kvcache.PageID
	TargetSlot    kvcache.PageID
	TargetSlotGen kvcache.Gen
	FirstToken    int32
}

// TellStatus tells a decode peer how a room ended here (prefill).
type TellStatus struct {
	Room          Room
	Peer          Peer
	OK            bool
	HasLength     bool
	Pages, Tokens int // from PrefixTokens on
	Status        int
	Reason        string
}

// TellAbort asks a writer to end a room (decode).
type TellAbort struct {
	Room   Room
	Peer   Peer
	Reason string
}

// TellDrained tells a decode peer that nothing more comes for a room (prefill).
type TellDrained struct {
	Room Room
	Peer Peer
}

// CheckDigest asks for the digest of the pages that were owed, compared with the
// one that each writer sent. Answered by DigestChecked.
type CheckDigest struct {
	Req    kvcache.Req
	Room   Room
	Pages  []kvcache.PageID
	Gens   []kvcache.Gen
	Tokens int
}

// FencePeer: a transfer of the peer has not drained in time. Close the connection
// so that it cannot write or read any more, then report PeerGone.
type FencePeer struct {
	Peer Peer
	Xfer kvcache.Xfer
}

// RefusePeer: do not work with this peer.
type RefusePeer struct {
	Peer Peer
	Err  error
}

func (Reject) action()        {}
func (Token) action()         {}
func (Answer) action()        {}
func (Retracted) action()     {}
func (Launch) action()        {}
func (SendTargets) action()   {}
func (StartTransfer) action() {}
func (TellStatus) action()    {}
func (TellAbort) action()     {}
func (TellDrained) action()   {}
func (CheckDigest) action()   {}
func (FencePeer) action()     {}
func (RefusePeer) action()    {}
