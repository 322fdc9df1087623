package record

import (
	"github.com/kvwitness/kvwitness/engine/kvcache"
	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/engine/scheduler"
)

func about(ev lifecycle.Ev, i scheduler.Info) lifecycle.Fact {
	return lifecycle.Fact{Ev: ev, Req: number(i.Req), Room: room(i.Room)}
}

// Admitted implements scheduler.Events.
func (r *Recorder) Admitted(at kvcache.At, i scheduler.Info, prefixTokens int) {
	f := about(lifecycle.RequestAdmitted, i)
	f.Domain, f.Synthetic = lifecycle.Some(string(i.Domain)), i.Synthetic
	f.PromptTokens, f.PrefixTokens = lifecycle.Some(int64(i.PromptTokens)), lifecycle.Some(int64(prefixTokens))
	r.say(at, f)
}

// Rejected implements scheduler.Events.
func (r *Recorder) Rejected(at kvcache.At, i scheduler.Info, status int, reason string) {
	f := about(lifecycle.RequestRejected, i)
	f.HTTPStatus, f.Reason = int64(status), bounded(reason)
	r.say(at, f)
}

// Aborted implements scheduler.Events.
func (r *Recorder) Aborted(at kvcache.At, i scheduler.Info, reason string) {
	f := about(lifecycle.RequestAborted, i)
	f.Reason = bounded(reason)
	r.say(at, f)
}

func bounded(reason string) string { return reason[:min(len(reason), lifecycle.MaxText)] }

var finishes = map[scheduler.Finish]lifecycle.Finish{
	scheduler.FinishStop: lifecycle.FinishStop, scheduler.FinishLength: lifecycle.FinishLength,
	scheduler.FinishAbort: lifecycle.FinishAbort, scheduler.FinishError: lifecycle.FinishError,
}

// Finished implements scheduler.Events.
func (r *Recorder) Finished(at kvcache.At, i scheduler.Info, o scheduler.Outcome) {
	f := about(lifecycle.RequestFinished, i)
	f.HTTPStatus, f.Finish = int64(o.Status), finishes[o.Finish]
	r.say(at, f)
}

// xferName keeps the two halves' own numbers apart: a receiver names all of a
// room's pages to a writer at once, a sender each batch.
func xferName(x kvcache.Xfer, side scheduler.Side) string {
	if side == scheduler.Sender {
		return "s" + number(x)
	}
	return "r" + number(x)
}

// TransferStarted implements scheduler.Events.
func (r *Recorder) TransferStarted(at kvcache.At, i scheduler.Info, x kvcache.Xfer, side scheduler.Side, peer scheduler.Peer, pages []kvcache.PageID) {
	f := about(lifecycle.TransferStarted, i)
	f.Xfer, f.Pool, f.Peer, f.Op, f.Synthetic = xferName(x, side), "kv", string(peer), lifecycle.Push, i.Synthetic
	f.Side = lifecycle.Receiver
	if side == scheduler.Sender {
		f.Side = lifecycle.Sender
	}
	f.Pages = lifecycle.Runs{}
	for _, p := range pages {
		f.Pages = f.Pages.Append(uint32(p))
	}
	r.say(at, f)
}

// TransferCompleted implements scheduler.Events. What a sender knows of its own
// end is said by TransferDrained; only the receiver is told.
func (r *Recorder) TransferCompleted(at kvcache.At, i scheduler.Info, x kvcache.Xfer, side scheduler.Side, peer scheduler.Peer, ok bool, e scheduler.Extent, last bool) {
	if side == scheduler.Sender {
		return
	}
	f := about(lifecycle.TransferCompleted, i)
	f.Req = ""
	f.Xfer, f.Peer, f.Outcome, f.Last = xferName(x, side), string(peer), lifecycle.Failed, last
	if ok {
		f.Outcome = lifecycle.OK
	}
	if e.Known && ok {
		f.Tokens = lifecycle.Some(int64(e.Tokens))
	}
	r.say(at, f)
}

// TransferDrained implements scheduler.Events.
func (r *Recorder) TransferDrained(at kvcache.At, n scheduler.Room, x kvcache.Xfer, side scheduler.Side, peer scheduler.Peer) {
	r.say(at, lifecycle.Fact{Ev: lifecycle.TransferDrained, Xfer: xferName(x, side), Room: room(n), Peer: string(peer)})
}

// PeerGone implements scheduler.Events.
func (r *Recorder) PeerGone(at kvcache.At, peer scheduler.Peer) {
	r.say(at, lifecycle.Fact{Ev: lifecycle.PeerGone, Peer: string(peer)})
}

// Protected implements scheduler.Events: the first run is told.
func (r *Recorder) Protected(at kvcache.At, p scheduler.Protection, _ bool) {
	r.mu.Lock()
	told := r.ran[p]
	r.ran[p] = true
	r.mu.Unlock()
	if !told {
		r.say(at, lifecycle.Fact{Ev: lifecycle.Protection, Protection: p.String(), State: lifecycle.StateRan})
	}
}
