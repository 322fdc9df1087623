package scheduler

import "github.com/kvwitness/kvwitness/engine/kvcache"

// Side of a transfer.
type Side uint8

const (
	// Receiver: the pages are targets.
	Receiver Side = iota
	// Sender: they are sources.
	Sender
)

// Info is what a listener may know of a request.
type Info struct {
	Req          kvcache.Req
	Room         Room
	Domain       kvcache.Domain
	PromptTokens int
	Synthetic    bool
}

// Extent is how much a completion says was moved. Known is false when it says
// nothing.
type Extent struct {
	Known         bool
	Pages, Tokens int
}

// Events hears of everything about requests and transfers, in order, and between
// the pools' own events, from the goroutine that calls Step. Slices are valid only
// during the call; an implementation neither blocks nor calls back.
type Events interface {
	// Admitted: the request passed the door; prefixTokens are already present.
	Admitted(at kvcache.At, r Info, prefixTokens int)
	Rejected(at kvcache.At, r Info, status int, reason string)
	Aborted(at kvcache.At, r Info, reason string)
	Finished(at kvcache.At, r Info, o Outcome)
	TransferStarted(at kvcache.At, r Info, x kvcache.Xfer, side Side, peer Peer, pages []kvcache.PageID)
	// TransferCompleted: this instance was told. Last: nothing more of the room.
	TransferCompleted(at kvcache.At, r Info, x kvcache.Xfer, side Side, peer Peer, ok bool, e Extent, last bool)
	TransferDrained(at kvcache.At, room Room, x kvcache.Xfer, side Side, peer Peer)
	PeerGone(at kvcache.At, peer Peer)
	// Protected: the protection ran; stopped says that it stopped something. It is
	// called often, so a publisher tells the first run and every stop, and counts.
	Protected(at kvcache.At, p Protection, stopped bool)
}

type silent struct{}

func (silent) Admitted(kvcache.At, Info, int)                                                   {}
func (silent) Rejected(kvcache.At, Info, int, string)                                           {}
func (silent) Aborted(kvcache.At, Info, string)                                                 {}
func (silent) Finished(kvcache.At, Info, Outcome)                                               {}
func (silent) TransferStarted(kvcache.At, Info, kvcache.Xfer, Side, Peer, []kvcache.PageID)     {}
func (silent) TransferCompleted(kvcache.At, Info, kvcache.Xfer, Side, Peer, bool, Extent, bool) {}
func (silent) TransferDrained(kvcache.At, Room, kvcache.Xfer, Side, Peer)                       {}
func (silent) PeerGone(kvcache.At, Peer)                                                        {}
func (silent) Protected(kvcache.At, Protection, bool)                                           {}
