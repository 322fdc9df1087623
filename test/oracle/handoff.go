package oracle

import (
	"slices"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
)

// room is one incarnation of a room (R15).
type room struct {
	id        string
	at        map[string]*request // the request that the room is on an instance
	seenAt    []string            // instances that named it, the first first
	admitted  []string            // instances that admitted it, the first first
	transfers []*transfer
	handoffs  []*handoff
	rejected  map[string]*rejection // in force, by the instance that said so
	early     map[string]bool       // receivers that were told of a completion that may have begun out of sight
	synthetic bool
	unseen    string
}

// rejection is a request_rejected that is in force.
type rejection struct{ moment int }

func (o *oracle) room(id string) *room {
	if o.rooms[id] == nil {
		o.newRoom(id)
	}
	return o.rooms[id]
}

func (o *oracle) newRoom(id string) *room {
	r := &room{id: id, at: map[string]*request{}, rejected: map[string]*rejection{}, early: map[string]bool{}}
	o.rooms[id] = r
	o.roomOrder = append(o.roomOrder, r)
	return r
}

func (r *room) namedAt(inst string) {
	if inst != "" && !slices.Contains(r.seenAt, inst) {
		r.seenAt = append(r.seenAt, inst)
	}
}

func (r *room) blur(why string) {
	if r != nil && r.unseen == "" {
		r.unseen = why
	}
}

// allOver: its requests, of which there is one, are over, and its handoffs are
// judged (R15, warm-ups share a room).
func (o *oracle) allOver(r *room) bool {
	any := false
	for _, i := range o.instOrder {
		for _, req := range i.requests {
			if req.room != r {
				continue
			}
			if any = true; !req.isOver() {
				return false
			}
		}
	}
	for _, h := range r.handoffs {
		if !h.judged && h.isReceiver() {
			return false
		}
	}
	return any
}

// isOver: it ended, or need not say so, and gave all back. Whether a request ended
// that only sends, or of which no lifecycle stream tells, the judgement on its
// handoffs says.
func (r *request) isOver() bool {
	if r.over {
		return true
	}
	if !r.inst.engine {
		return !r.runs()
	}
	return (r.ended || r.handedOver()) && !r.holds()
}

// request is the room's request on an instance; one without an id where nobody
// named it yet.
func (r *room) request(i *instance) *request {
	if r.at[i.name] == nil || r.at[i.name].over {
		req := &request{inst: i, room: r, given: map[*pool][]given{}}
		i.requests = append(i.requests, req)
		r.at[i.name] = req
	}
	return r.at[i.name]
}

// transfer is one record per room, receiver, sender and xfer, both sides
// joined (R21).
type transfer struct {
	room             *room
	receiver, sender string
	xfer             string
	received, sent   bool // which sides started it
	namesPages       bool // the receiver named some
	began            int  // the moment of its first start
	receivedAt       int  // the moment of the receiver's start
	sentAt           int  // and of the sender's
	targets, sources []*generation
	toReq, fromReq   *request
	ended            bool
	endedAt          int // the moment
	completed        bool
	failed           bool
	drained          bool
	drainUnknown     bool // it may have been told, and not heard
	gone             bool // its instances parted, or one restarted
	posted           []*post
	staged           map[*pool]spans
}

func (o *oracle) transfer(r *room, receiver, sender, xfer string) *transfer {
	if t := r.find(receiver, sender, xfer); t != nil {
		return t
	}
	t := &transfer{room: r, receiver: receiver, sender: sender, xfer: xfer, staged: map[*pool]spans{}}
	r.transfers = append(r.transfers, t)
	o.transfers = append(o.transfers, t)
	r.handoff(receiver)
	return t
}

func (r *room) find(receiver, sender, xfer string) *transfer {
	for _, t := range r.transfers {
		if t.receiver == receiver && t.sender == sender && t.xfer == xfer {
			return t
		}
	}
	return nil
}

func (t *transfer) started() bool     { return t.received || t.sent }
func (t *transfer) open() bool        { return t.started() && !t.ended }
func (t *transfer) handoff() *handoff { return t.room.handoff(t.receiver) }

// dummy: both sides, as far as they spoke, named no page.
func (t *transfer) dummy() bool { return len(t.targets) == 0 && len(t.sources) == 0 }

// handoff is a room at one receiver.
type handoff struct {
	room     *room
	receiver string
	first    int // the moment of the first transfer_started
	judged   bool
	seen     bool // the coverage was complete when it was judged
	witness  bool // nothing was owed that was not observed
	short    bool
	tokens   lifecycle.Opt[int64] // the most that a completion said
	last     bool                 // a completion ok said so
	success  bool
	wasRead  bool   // by its request, of a page that is owed
	lastEnd  *entry // the last completion of a transfer
	mixed    bool   // a write could be of it or of another
	partial  bool   // it may have begun out of sight (R19a)
	misnamed bool   // a start named a page that is not its request's
	unseen   string
	unsure   string // what its judgement could not tell
}

func (r *room) handoff(receiver string) *handoff {
	for _, h := range r.handoffs {
		if h.receiver == receiver {
			return h
		}
	}
	h := &handoff{room: r, receiver: receiver}
	r.handoffs = append(r.handoffs, h)
	return h
}

func (h *handoff) blur(why string) {
	if h.unseen == "" {
		h.unseen = why
	}
}

// transfers are those of the room that go to the receiver and were started.
func (h *handoff) transfers() (ts []*transfer) {
	for _, t := range h.room.transfers {
		if t.receiver == h.receiver && t.started() {
			ts = append(ts, t)
		}
	}
	return ts
}

// receiverSide reports whether the receiver itself started one.
func (h *handoff) receiverSide() bool {
	return slices.ContainsFunc(h.transfers(), func(t *transfer) bool { return t.received })
}

// isReceiver is hard case 3: whoever said it was one; only where nobody did,
// whom a sender named.
func (h *handoff) isReceiver() bool {
	if h.receiverSide() {
		return true
	}
	named := len(h.transfers()) > 0
	for _, other := range h.room.handoffs {
		if other.receiverSide() || !named && len(other.transfers()) > 0 {
			return false
		}
	}
	return true
}

// request is the receiver's own.
func (h *handoff) request() *request { return h.room.at[h.receiver] }

// start applies transfer_started, once it has been judged by the rules for
// pages.
func (o *oracle) start(e *entry, misnames bool) {
	r := o.roomToStart(e)
	req := o.speaker(e.Fact)
	r.synthetic = r.synthetic || e.Synthetic
	receiver, sender := e.Inst, e.Peer
	if e.Side == lifecycle.Sender {
		receiver, sender = e.Peer, e.Inst
	}
	o.compare(e, receiver, sender)
	t := o.transfer(r, receiver, sender, e.Xfer)
	h := t.handoff()
	h.misnamed = h.misnamed || misnames
	if h.first == 0 {
		h.first = o.applied
	}
	if !t.started() {
		t.began = o.applied
	}
	again := e.Side == lifecycle.Receiver && t.received || e.Side == lifecycle.Sender && t.sent
	if again && t.ended {
		t.ended, t.completed, t.failed, t.drained = false, false, false, false
	}
	pages := o.pagesOf(e.Inst, e.Pool, e.Pages)
	if e.Side == lifecycle.Receiver {
		if !t.received {
			t.receivedAt = o.applied
		}
		t.received, t.toReq = true, req
		t.namesPages = t.namesPages || len(e.Pages) > 0
		o.reserveOnWire(e, req, pages)
		for _, pg := range pages {
			t.targets = append(t.targets, pg.gen)
			pg.gen.targets = append(pg.gen.targets, t)
		}
	} else {
		if !t.sent {
			t.sentAt = o.applied
		}
		t.sent, t.fromReq = true, req
		for _, pg := range pages {
			t.sources = append(t.sources, pg.gen)
			pg.gen.sources = append(pg.gen.sources, t)
		}
	}
	for _, pg := range pages {
		if pg.gen.unknown {
			h.blur("a page of the transfer was not known")
			req.blur("it transferred a page that was not known")
		}
	}
	if len(pages) == 0 && len(e.Pages) > 0 {
		h.blur("the transfer names a pool that was never opened")
	}
}

// roomToStart is the room of a start, begun anew where the last one at this
// receiver is over (R15).
func (o *oracle) roomToStart(e *entry) *room {
	if !o.startsAnew(e) {
		if req := o.inst(e.Inst).find(e.Req); req != nil && req.room != nil && req.room.id == e.Room {
			return req.room // as it was when the request came
		}
		return o.room(e.Room)
	}
	r := o.newRoom(e.Room)
	if e.Req != "" {
		req := o.inst(e.Inst).request(e.Req)
		req.room, r.at[e.Inst] = r, req
	}
	return r
}

// startsAnew: a receiver starts a transfer in a room that was judged at it,
// and whose request there has ended.
func (o *oracle) startsAnew(e *entry) bool {
	r := o.rooms[e.Room]
	if r == nil || e.Side != lifecycle.Receiver {
		return false
	}
	req := r.at[e.Inst]
	return req != nil && req.ended && slices.ContainsFunc(r.handoffs, func(h *handoff) bool {
		return h.receiver == e.Inst && h.judged
	})
}

// reservesOnWire: an instance has no lifecycle stream.
func (o *oracle) reservesOnWire(e *entry) bool {
	return !o.inst(e.Inst).engine && e.Src == lifecycle.Wire
}

// reserveOnWire: where an instance has no lifecycle stream, its start is the
// reservation (R6). What the room has already, it keeps.
func (o *oracle) reserveOnWire(e *entry, req *request, pages []*page) {
	if !o.reservesOnWire(e) {
		return
	}
	o.give(o.notOwn(e, pages), req)
}

// ends finds the record that a completion or a drain speaks of: inst and peer
// may stand either way round.
func (o *oracle) ends(e *entry) *transfer {
	for n := len(o.roomOrder) - 1; n >= 0; n-- {
		r := o.roomOrder[n]
		if r.id != e.Room {
			continue
		}
		if t := r.find(e.Inst, e.Peer, e.Xfer); t != nil {
			return t
		}
		if t := r.find(e.Peer, e.Inst, e.Xfer); t != nil {
			return t
		}
	}
	return nil
}

// complete applies transfer_completed.
func (o *oracle) complete(e *entry) {
	t := o.completes(e)
	if t == nil {
		to, from := o.inst(e.Inst), o.inst(e.Peer)
		r := o.room(e.Room)
		if from.missed || from.sighted == 0 || to.missed && !r.at[e.Inst].begun() {
			r.early[e.Inst] = true
		}
		return
	}
	o.compare(e, e.Inst, e.Peer)
	h := t.handoff()
	if o.begunUnseen(t, h) {
		h.partial = true
	}
	t.ended, t.endedAt = true, o.applied
	h.lastEnd = e
	if e.Outcome == lifecycle.OK {
		t.completed, t.failed = true, false
		t.drained = true
		o.land(t)
		o.claimCompletion(e, t)
		if e.Tokens.Has && e.Tokens.V >= h.tokens.Or(0) {
			h.tokens = e.Tokens
		}
	} else {
		t.failed = true
		o.drainSeen(t)
	}
	if e.Outcome == lifecycle.OK && e.Last {
		h.last = true
		o.judge(h, e.Fact, "it was completed", lifecycle.Opt[int64]{})
	}
}

// begunUnseen: a transfer is completed that nobody was seen to start, and may
// have begun out of sight: its receiver starts none and its sender is not
// followed, or its receiver was not followed then (R19a).
func (o *oracle) begunUnseen(t *transfer, h *handoff) bool {
	if t.started() {
		return false
	}
	to, from := o.inst(t.receiver), o.inst(t.sender)
	if !h.receiverSide() && (from.missed || from.sighted == 0) {
		return true
	}
	return to.missed && !h.request().begun()
}

// completes is the record that a completion speaks of.
func (o *oracle) completes(e *entry) *transfer {
	if t := o.ends(e); t != nil {
		return t
	}
	return o.completedUnstarted(e)
}

// completedUnstarted: a completion of which no start was seen. The receiver is
// the one that was told, if it had reserved (hard case 3).
func (o *oracle) completedUnstarted(e *entry) *transfer {
	r := o.room(e.Room)
	for _, h := range r.handoffs {
		if h.receiver == e.Inst && h.receiverSide() {
			return o.transfer(r, e.Inst, e.Peer, e.Xfer)
		}
	}
	for _, h := range r.handoffs {
		if h.receiver == e.Peer && h.isReceiver() {
			return o.transfer(r, e.Peer, e.Inst, e.Xfer)
		}
	}
	if req := r.at[e.Inst]; req != nil && len(req.given) > 0 {
		return o.transfer(r, e.Inst, e.Peer, e.Xfer)
	}
	return nil
}

// claimCompletion: pages of a completion are claimed to be written by it.
func (o *oracle) claimCompletion(e *entry, t *transfer) {
	if e.Inst != t.receiver {
		return
	}
	for _, g := range t.targets {
		named := slices.Contains(numbers(e.Pages), g.page.no) && (e.Pool == "" || e.Pool == g.page.pool.name)
		own := t.toReq == nil || same(g.holder, t.toReq) // it may name another's page
		if named && g.page.gen == g && !g.over && own {
			g.claims = append(g.claims, claimed{lifecycle.ByTransfer, e.Step})
			g.used = true
			g.laid = append(g.laid, laid{content{t.toReq, g}, true})
		}
	}
}

// drain applies transfer_drained: the writer will write no more.
func (o *oracle) drain(e *entry) {
	if t := o.ends(e); t != nil {
		t.drained = true
		return
	}
	if e.Inst != e.Peer {
		// A transfer that began out of sight (R19a).
		r := o.room(e.Room)
		for _, to := range []string{e.Inst, e.Peer} {
			if o.inst(to).missed && !r.at[to].begun() {
				r.early[to] = true
			}
		}
		return
	}
	for _, t := range o.transfers { // the writer speaks of itself
		if t.room.id == e.Room && t.sender == e.Peer && t.xfer == e.Xfer {
			t.drained = true
		}
	}
}

// peerGone ends and drains what runs between two instances, as far as the one
// that says it had started it.
func (o *oracle) peerGone(e *entry) {
	for _, t := range o.transfers {
		if t.receiver == e.Inst && t.sender == e.Peer && t.received || t.receiver == e.Peer && t.sender == e.Inst && t.sent {
			o.part(e, t)
		}
	}
}

// part ends a transfer whose instances have nothing to do with each other any
// more.
func (o *oracle) part(e *entry, t *transfer) {
	if t.open() {
		t.ended, t.endedAt, t.failed = true, o.applied, true
		t.handoff().lastEnd = e
	}
	t.drained, t.gone = true, true
}

// isDrained is hard case 7 for one writer.
func (o *oracle) isDrained(t *transfer) bool {
	return t.drained || t.drainUnknown
}

// drainSeen: a transfer that failed is drained once it is seen, on a path seen
// since it began, that nothing posted is outstanding.
func (o *oracle) drainSeen(t *transfer) {
	outstanding := slices.ContainsFunc(t.posted, func(p *post) bool { return !p.settled() })
	if t.failed && t.ended && !outstanding && o.watched(t.receiver, t.sender, t.began) {
		t.drained = true
	}
}
