package publish

import (
	"strconv"

	"github.com/kvwitness/kvwitness/engine/kvcache"
	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/engine/scheduler"
)

// output is where facts go. A fact is the encoder's: it is gone after the call.
type output interface {
	say(f *lifecycle.Fact)
}

// encoder turns events into facts, in order. One goroutine drives it.
type encoder struct {
	id    Identity
	b     *books
	out   []output
	f     lifecycle.Fact
	audit lifecycle.Audit
	t     int64  // of the last fact
	seq   uint64 // of the next one
	at    kvcache.At
	half  *events // that the present event is of
	// undecided are the releases of the event before, whose pages wait for a drain
	// if the scheduler says so next.
	undecided []undecided
	said      map[string]lifecycle.State // protections, for snapshots
	runs      []lifecycle.Run            // scratch
	waits     []lifecycle.Run
}

type undecided struct {
	pb    *poolBook
	who   *party
	pages []lifecycle.Run
}

// maxProtections bounds the names of protections that a snapshot repeats.
const maxProtections = 256

func newEncoder(id Identity, out ...output) *encoder {
	return &encoder{id: id, b: newBooks(), out: out, said: map[string]lifecycle.State{}}
}

// tellAll makes the facts of what was queued.
func (e *encoder) tellAll(half *events) {
	e.half = half
	for i := range half.list {
		e.tell(&half.list[i])
	}
	if half.lost > 0 {
		e.lose(half.lost)
	}
}

// lose leaves the numbers of what was lost out, so that their absence shows. Whether
// what waits for a drain still waits is not known any more: it is let go, after the
// gap, where that accuses nobody.
func (e *encoder) lose(events uint64) {
	e.seq += events
	e.undecided = e.undecided[:0]
	for _, pb := range e.b.pools {
		e.letGoAll(pb)
	}
	e.b.forget()
}

// say gives the fact in hand its head and sends it.
func (e *encoder) say() {
	e.t = max(e.at.Now, e.t+1)
	f := &e.f
	f.T, f.Inst, f.Src = e.t, e.id.Instance, lifecycle.Engine
	f.Epoch, f.Seq, f.Step = lifecycle.Some(e.id.Epoch), lifecycle.Some(e.seq), lifecycle.Some(int64(e.at.Step))
	e.seq++
	for _, o := range e.out {
		o.say(f)
	}
}

func (e *encoder) begin(ev lifecycle.Ev) *lifecycle.Fact {
	e.f = lifecycle.Fact{Ev: ev}
	return &e.f
}

func (e *encoder) list(p part) []lifecycle.Run { return e.half.runs[p.at : p.at+p.n] }

func (e *encoder) tell(ev *event) {
	if len(e.undecided) > 0 && (ev.kind != pagesReleased || ev.req != e.undecided[0].who.id) {
		if ev.kind == afterRelease {
			e.undecided = e.undecided[:0]
		} else {
			e.decideNow()
		}
	}
	if ev.kind == pause {
		return
	}
	e.at = ev.at
	switch ev.kind {
	case poolOpened:
		e.b.open(ev.pool)
		f := e.begin(lifecycle.PoolOpened)
		f.Pool, f.Spec = ev.pool.name, &ev.pool.spec
		e.say()
	case requestAdmitted, requestRejected, requestAborted, requestFinished:
		e.tellRequest(ev)
	case transferStarted, transferCompleted, transferDrained:
		e.tellTransfer(ev)
	case peerGone:
		e.begin(lifecycle.PeerGone).Peer = ev.name
		e.say()
	case protection:
		if _, known := e.said[ev.name]; known || len(e.said) < maxProtections {
			e.said[ev.name] = ev.state
		}
		f := e.begin(lifecycle.Protection)
		f.Protection, f.State = ev.name, ev.state
		e.say()
	case contentDigest:
		f := e.begin(lifecycle.ContentDigest)
		f.Room, f.Pool, f.Side, f.Digest = decimal(uint64(ev.room)), ev.pool.name, sideOf(ev.side), ev.text
		e.say()
	case afterRelease:
	default:
		e.tellPages(ev)
	}
}

func (e *encoder) tellRequest(ev *event) {
	r := e.b.request(ev.req)
	f := e.begin(lifecycle.RequestAdmitted)
	f.Req, f.Room = r.name, roomName(ev.room)
	switch ev.kind {
	case requestAdmitted:
		if ev.has && r.held == 0 {
			r.party = &party{r.id, r.name, lifecycle.Some(ev.name)}
		}
		r.roomName, r.admitted, r.ended, r.synthetic = f.Room, true, false, ev.yes
		r.prompt, r.prefix = ev.n[0], ev.n[1]
		f.Domain = lifecycle.Opt[string]{V: ev.name, Has: ev.has}
		f.PromptTokens, f.PrefixTokens, f.Synthetic = lifecycle.Some(ev.n[0]), lifecycle.Some(ev.n[1]), ev.yes
	case requestRejected:
		f.Ev, f.HTTPStatus, f.Reason = lifecycle.RequestRejected, ev.n[0], bounded(ev.text)
		r.ended = true
	case requestAborted:
		f.Ev, f.Reason = lifecycle.RequestAborted, bounded(ev.text)
	case requestFinished:
		f.Ev, f.HTTPStatus, f.Finish = lifecycle.RequestFinished, ev.n[0], finishOf(scheduler.Finish(ev.n[1]))
		r.ended = true
	}
	e.say()
	e.b.settle(r)
}

func (e *encoder) tellTransfer(ev *event) {
	f := e.begin(lifecycle.TransferDrained)
	f.Xfer, f.Room, f.Peer = xferName(ev.side, ev.xfer), decimal(uint64(ev.room)), ev.name
	switch ev.kind {
	case transferStarted:
		e.tellStarted(ev)
	case transferCompleted:
		f.Ev, f.Outcome = lifecycle.TransferCompleted, lifecycle.Failed
		if ev.yes {
			f.Outcome = lifecycle.OK
			f.Tokens, f.Last = e.tokensInAll(ev), ev.last && e.hasAll(ev)
		}
		e.say()
	case transferDrained:
		e.say()
		if pb := e.transferPool(); pb != nil {
			e.b.drained(pb, ev.xfer, func(at uint32, p *pageBook) {
				if p.marks&(releaseWaits|evictionWaits) != 0 {
					e.waits = append(e.waits, lifecycle.Run{First: at, Count: 1})
				}
			})
			e.letGoPages(pb)
		}
	}
}

func (e *encoder) tellStarted(ev *event) {
	pb := e.transferPool()
	if pb == nil {
		return
	}
	runs := e.list(ev.runs)
	if !pb.fits(runs) {
		e.lose(1)
		return
	}
	r := e.b.request(ev.req)
	e.b.start(pb, r, ev, runs)
	started(&e.f, r.name, ev, pb.pool.name)
	e.eachChunk(runs, func(part lifecycle.Runs) { e.f.Pages = part })
}

// started is the fact of a transfer_started but for its pages.
func started(f *lifecycle.Fact, req string, ev *event, pool string) {
	f.Ev, f.Xfer, f.Room, f.Peer = lifecycle.TransferStarted, xferName(ev.side, ev.xfer), decimal(uint64(ev.room)), ev.name
	f.Side, f.Op, f.Req, f.Synthetic = sideOf(ev.side), lifecycle.Push, req, ev.yes
	f.Pool = pool
}

// transferPool is the pool that the pages of transfers belong to; nil, and the
// transfer untold, if it was never opened.
func (e *encoder) transferPool() *poolBook {
	for _, pb := range e.b.pools {
		if pb.pool.name == e.id.TransferPool {
			return pb
		}
	}
	return nil
}

// hasAll reports whether nothing more of the room is to come here. Only a receiver
// can know, and only when its last writer has said so.
func (e *encoder) hasAll(ev *event) bool {
	tr := e.b.xfers[ev.xfer]
	return ev.side == scheduler.Receiver && tr != nil && tr.req.xfers == 1
}

// tokensInAll is what a completion says of tokens. Only a receiver says how many
// came in all, and only where its admission has been said, which holds how many
// were there before: what is measured needs its measure.
func (e *encoder) tokensInAll(ev *event) lifecycle.Opt[int64] {
	tr := e.b.xfers[ev.xfer]
	if !ev.has || ev.side != scheduler.Receiver || tr == nil || !tr.req.admitted {
		return lifecycle.Opt[int64]{}
	}
	return lifecycle.Some(ev.n[0])
}

// eachChunk says the fact in hand once for each part of runs that fits into one
// fact, once for no runs at all.
func (e *encoder) eachChunk(runs []lifecycle.Run, set func(lifecycle.Runs)) {
	for {
		n := min(len(runs), lifecycle.MaxRuns)
		set(lifecycle.Runs(runs[:n:n]))
		e.say()
		if runs = runs[n:]; len(runs) == 0 {
			return
		}
	}
}

func decimal(n uint64) string { return strconv.FormatUint(n, 10) }

func roomName(room scheduler.Room) string {
	if room == 0 {
		return ""
	}
	return decimal(uint64(room))
}

func xferName(side scheduler.Side, x kvcache.Xfer) string {
	if side == scheduler.Sender {
		return "s" + decimal(uint64(x))
	}
	return "r" + decimal(uint64(x))
}

func sideOf(s scheduler.Side) lifecycle.Side {
	if s == scheduler.Sender {
		return lifecycle.Sender
	}
	return lifecycle.Receiver
}

func finishOf(f scheduler.Finish) lifecycle.Finish {
	switch f {
	case scheduler.FinishStop:
		return lifecycle.FinishStop
	case scheduler.FinishLength:
		return lifecycle.FinishLength
	case scheduler.FinishAbort:
		return lifecycle.FinishAbort
	}
	return lifecycle.FinishError
}

// bounded cuts a reason to the format's length.
func bounded(text string) string {
	if len(text) > lifecycle.MaxText {
		return text[:lifecycle.MaxText]
	}
	return text
}
