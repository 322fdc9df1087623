package sim

import (
	"fmt"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
)

// transfer is one transfer between two halves of a request, into one pool.
type transfer struct {
	r          *request
	rcv, snd   *half
	xfer       string
	pool       string
	dst, src   []uint32
	op         lifecycle.Op
	umbrella   bool // names all target pages at once; chunks carry the bytes
	chunk      bool // of an umbrella: only the sender names it
	dummy      bool
	last       bool
	xferOnByte bool
	fromAddr   bool
	noFrom     bool
	posted     bool
	unended    []extent // that were posted, and are seen to end after the transfer
	acts       []func() // what is still to be done, in order
	named      bool     // by the receiver
	sent       bool     // started by the sender
	unheard    bool     // by a sender that nobody followed, nor did the receiver name it
	over       bool     // drained
	ok         bool
	failing    bool // its failure has been said
	struck     bool // by a fault
	retry      bool // of a transfer that failed
	lost       int  // pages at its end that are not sent, though it completes
}

func (r *request) transfer(rcv, snd *half, pool string, dst, src []uint32) *transfer {
	s := r.s
	t := &transfer{r: r, rcv: rcv, snd: snd, pool: pool, dst: dst, src: src, op: lifecycle.Push}
	if s.pulls {
		t.op = lifecycle.Pull
	}
	t.xfer = fmt.Sprintf("%d", len(r.transfers))
	if s.xferUnique {
		s.xfers++
		t.xfer = fmt.Sprintf("x%d", s.xfers)
	}
	staged := rcv.in.pool(pool).spec.Path == lifecycle.PathStaged
	t.xferOnByte = s.xferUnique && (staged || rcv.in.unnamed || s.chance(s.Mix.XferOnByte))
	t.fromAddr = !staged && !snd.in.silent && s.chance(s.Mix.FromAddr)
	t.noFrom = !staged && len(r.senders) == 1 && !t.xferOnByte && s.chance(s.Mix.NoFrom)
	t.posted = s.chance(s.Mix.Posted)
	r.transfers = append(r.transfers, t)
	return t
}

// plan lists what the transfer does, one act at a time.
func (t *transfer) plan() {
	t.incident()
	if !t.umbrella {
		if !t.chunk && !t.named {
			t.acts = append(t.acts, t.name)
		}
		t.acts = append(t.acts, t.start)
		if t.rcv.in.observed && !t.dummy {
			for _, e := range t.dropsBytes(t.extents()) {
				t.acts = append(t.acts, func() { t.looksAway(); t.write(e) })
			}
		}
	}
	t.acts = append(t.acts, t.complete)
}

// name is the receiver's word for the pages that it waits for.
func (t *transfer) name() {
	if t.named || !t.rcv.alive() {
		return
	}
	t.named = true
	h, s := t.rcv, t.r.s
	if h.in.unnamed {
		h.sighted()
		h.hold(h.in.pool(t.pool), t.dst, 1)
		s.hard(3, "a receiver that only the sender names")
		return
	}
	h.sighted()
	switch {
	case h.sawAll:
		s.hard(2, "a handoff that observation can judge")
	case h.in.written && h.in.engine:
		s.hard(2, "a handoff that claims can judge")
	default:
		s.hard(2, "a handoff that nothing can judge")
	}
	if len(t.r.receivers) > 1 {
		s.hard(3, "a room with two receivers")
	}
	if len(t.r.senders) > 1 {
		s.hard(7, "a room with two writers")
	}
	f := lifecycle.Fact{
		Ev: lifecycle.TransferStarted, Xfer: t.xfer, Room: t.r.room, Side: lifecycle.Receiver, Pool: t.pool,
		Pages: runs(t.dst), Peer: t.snd.in.name, Op: t.op, Synthetic: t.r.synthetic,
	}
	if t.op == lifecycle.Push && s.chance(0.5) {
		f.Op = lifecycle.OpNone
	}
	h.hold(h.in.pool(t.pool), t.dst, 1)
	h.in.target(h.in.pool(t.pool), t.dst)
	t.namesForeign(h, "foreign_page/target", &f)
	if !h.in.engine {
		h.in.tell(lifecycle.Wire, t.snd.in.node, f)
		t.reuses()
		t.namesToAll()
		return
	}
	if h.req != t.r.id || s.chance(0.5) {
		f.Req = h.req
	}
	h.say(f)
	if s.chance(s.Mix.WireToo) {
		f.Req = ""
		h.in.tell(lifecycle.Wire, h.in.node, f)
		s.hard(3, "a transfer said by engine and wire")
	}
}

// namesToAll has a receiver tell all its writers of a room in one go what it waits for,
// as a decode server does that sends a message to each rank of the other side. Only its
// engine could tell that it gave up between two of them.
func (t *transfer) namesToAll() {
	for _, o := range t.r.transfers {
		if o.rcv == t.rcv && !o.named && !o.over && !o.chunk && !o.umbrella && len(o.acts) > 1 {
			o.acts = o.acts[1:] // to name it
			o.name()
		}
	}
}

// start is the sender's word for the pages that it sends.
func (t *transfer) start() {
	if !t.snd.alive() {
		return
	}
	t.sent = true
	h := t.snd
	t.unheard = t.chunk && (h.in.silent || h.in.muted)
	f := lifecycle.Fact{
		Ev: lifecycle.TransferStarted, Xfer: t.xfer, Room: t.r.room, Side: lifecycle.Sender, Pool: t.pool,
		Pages: runs(t.src[:max(0, len(t.src)-t.lost)]), Peer: t.rcv.in.name, Op: t.op, Synthetic: t.r.synthetic,
	}
	if t.r.s.chance(0.5) {
		f.Req = h.req
	}
	if h.in.silent {
		return
	}
	h.hold(h.in.pool(t.pool), t.src, 1)
	t.namesForeign(h, "foreign_page/source", &f)
	t.namesFewer(&f)
	h.say(f)
	t.strays()
}

// hold counts the transfers that a page must outlive.
func (h *half) hold(p *pool, pages []uint32, n int) {
	if !h.alive() {
		return
	}
	for _, id := range pages {
		p.pages[id].busy += n
		if p.pages[id].unknown {
			h.r.blurred = true
		}
	}
}

// complete tells the receiver, and with a pull the sender, that it is done.
func (t *transfer) complete() {
	h, s := t.rcv, t.r.s
	t.ok = true
	t.last = t.r.lastOf(h)
	t.claim()
	f := lifecycle.Fact{Ev: lifecycle.TransferCompleted, Xfer: t.xfer, Room: t.r.room, Peer: t.snd.in.name, Outcome: lifecycle.OK}
	f.Last = t.last && !t.r.noLast
	if len(t.dst) > 0 && !t.struck && !t.dummy && s.chance(0.2) && len(t.r.senders) == 1 {
		f.Pool, f.Pages = t.pool, runs(t.dst)
	}
	if t.last && s.chance(0.3) && !t.dummy {
		f.Tokens = lifecycle.Some(t.r.prompt - h.prefix)
	}
	t.saysFewer(&f)
	t.tellReceiver(f)
	if t.op == lifecycle.Pull && s.chance(0.7) {
		f.Peer, f.Last, f.Pool, f.Pages = h.in.name, false, "", nil
		t.snd.say(f)
	}
	t.drained()
}

// claim is the receiving engine's own word that a transfer wrote its pages:
// at once, or where several write one page, when the last one is done.
func (t *transfer) claim() {
	h := t.rcv
	if t.dummy && (!t.last || t.r.synthetic) {
		return
	}
	if len(t.r.senders) == 1 {
		if !t.dropsClaim() {
			h.write(h.in.pool(t.pool), t.dst[:len(t.dst)-t.lost], lifecycle.ByTransfer, 0)
		}
		return
	}
	if !t.last {
		return
	}
	for _, p := range h.in.pools {
		pages := map[uint32]bool{}
		var list []uint32
		for _, o := range t.r.transfers {
			if o.rcv == h && o.pool == p.name && o.ok {
				for _, id := range o.dst {
					if !pages[id] {
						list, pages[id] = append(list, id), true
					}
				}
			}
		}
		h.write(p, list, lifecycle.ByTransfer, 0)
	}
}

func (t *transfer) tellReceiver(f lifecycle.Fact) {
	h, s := t.rcv, t.r.s
	if !h.alive() {
		return
	}
	if !h.in.engine {
		h.in.tell(lifecycle.Wire, t.snd.in.node, f)
		return
	}
	h.say(f)
	if s.chance(s.Mix.WireToo) {
		h.in.tell(lifecycle.Wire, h.in.node, f)
	}
}

// drained ends the transfer: no write of it can still arrive.
func (t *transfer) drained() {
	if t.over {
		return
	}
	t.over, t.acts = true, nil
	if t.named {
		t.rcv.hold(t.rcv.in.pool(t.pool), t.dst, -1)
		if t.ok {
			t.rcv.mark(t.rcv.in.pool(t.pool), t.dst, lifecycle.ByTransfer)
		}
	}
	if t.ok {
		t.endLate()
	}
	if t.sent && !t.snd.in.silent {
		t.snd.hold(t.snd.in.pool(t.pool), t.src, -1)
	}
}

// fail ends the transfer with a failure and waits until it is drained.
func (t *transfer) fail() {
	if t.over {
		return
	}
	s, f := t.r.s, lifecycle.Fact{Xfer: t.xfer, Room: t.r.room, Peer: t.snd.in.name}
	if !t.rcv.alive() || !t.snd.alive() {
		t.gone()
		return
	}
	t.looksAway()
	f.Ev, f.Outcome = lifecycle.TransferCompleted, lifecycle.Failed
	t.failing = true
	t.tellReceiver(f)
	if !(t.rcv.covering() && t.rcv.sawAll && !t.posted && s.chance(0.5)) {
		t.r.p.sleep(s.between(hop, 2*ms))
		if !t.rcv.alive() || !t.snd.alive() {
			t.gone()
			return
		}
		t.drain()
	} else {
		s.hard(7, "drained as all its writes were seen to end")
	}
	t.drained()
	t.r.p.sleep(hop)
}

// drain says that the writer has nothing under way any more. A sender that
// nobody follows yet is not heard; of a receiver without a stream the wire
// tells then, as it does of one whose sender is never heard.
func (t *transfer) drain() {
	f := lifecycle.Fact{Ev: lifecycle.TransferDrained, Xfer: t.xfer, Room: t.r.room, Peer: t.snd.in.name}
	heard := !t.snd.in.silent && (t.rcv.in.engine || !t.snd.in.muted)
	if t.op == lifecycle.Pull && heard {
		f.Peer = t.rcv.in.name
		t.snd.say(f)
	} else {
		t.tellReceiver(f)
	}
	t.r.s.hard(7, "drained by the writer's word")
}

// gone ends a transfer whose other side has restarted.
func (t *transfer) gone() {
	for _, side := range [][2]*half{{t.rcv, t.snd}, {t.snd, t.rcv}} {
		if side[0].alive() && !side[1].alive() && !side[0].in.silent && !side[0].lost[side[1].in] {
			side[0].lost[side[1].in] = true
			t.r.s.parted(side[0].in, side[1].in)
			f := lifecycle.Fact{Ev: lifecycle.PeerGone, Peer: side[1].in.name}
			if side[0].in.engine {
				side[0].say(f)
			} else {
				side[0].in.tell(lifecycle.Wire, side[0].in.node, f)
			}
			t.r.s.hard(7, "drained as the peer is gone")
		}
	}
	t.drained()
}

// parted is for the word that a peer is gone: it ends all that runs between the two,
// be it of the peer's next life, which began before the word came.
func (s *Sim) parted(a, b *instance) {
	for _, r := range s.alive {
		if r.touches(a) && r.touches(b) {
			r.blurred = true
		}
	}
}

// covering reports whether all that comes in is seen, and said to be.
func (h *half) covering() bool { return h.alive() && h.in.covered }

// sighted remembers whether the handoff began under complete coverage.
func (h *half) sighted() {
	if !h.begun {
		h.begun, h.sawAll = true, h.covering()
	}
}
