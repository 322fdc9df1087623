package ledger

import (
	"fmt"
	"slices"

	"github.com/kvwitness/kvwitness/sidecar/finding"
)

// claim_mismatch: claims differ from observations, or the two halves of a room
// differ (prompt length, pages).

// claimedUnseen: a transfer is claimed to have written pages that nothing was
// seen to arrive in, with every incoming write watched.
func (l *Ledger) claimedUnseen(h *handoff, s *shortage) {
	for _, p := range s.pages {
		if !p.claim {
			continue
		}
		b := l.accuse(finding.ClaimMismatch, h.recv, h.req, h.room, p.pool)
		b.pages = append(b.pages, p.at)
		if p.known {
			b.expose(p.whose)
		}
		b.say(claimedWritten, notSeen)
	}
	if r := h.req; r != nil && r.fullySeen() {
		for _, g := range r.given {
			l.claimedUnnamed(h, g, s)
		}
	}
}

const claimedWritten, notSeen = "written by transfer", "not one complete write was seen, with every incoming write watched"

// claimedUnnamed is the same for pages that the request was given, and that no
// transfer names.
func (l *Ledger) claimedUnnamed(h *handoff, g given, s *shortage) {
	pl := h.recv.pools[g.pool]
	if g.shared || pl == nil || !pl.shows() {
		return
	}
	for at := g.first; at < g.first+g.count; at++ {
		p := &pl.pages[at]
		if p.flags&(claimed|local|observed) != claimed || p.born > g.tick || pl.unseen(p) || s.lists(pl, at) {
			continue
		}
		b := l.accuse(finding.ClaimMismatch, h.recv, h.req, h.room, pl).on(l, at, p.content)
		b.say(claimedWritten, notSeen)
	}
}

// promptMismatch: the halves of a room were admitted with different prompts.
// Warm-ups share a room, so they are not compared.
func (l *Ledger) promptMismatch(c *call) {
	if !c.f.PromptTokens.Has || c.room.id == "" || c.room.isSynthetic() {
		return
	}
	for _, r := range c.room.reqs {
		if r.inst != c.inst && r.prompt.Has && r.prompt.V != c.f.PromptTokens.V {
			l.accuse(finding.ClaimMismatch, c.inst, c.req, c.room, nil).
				say(fmt.Sprintf("admitted with %d prompt tokens", c.f.PromptTokens.V),
					fmt.Sprintf("admitted by %s with %d", r.inst.name, r.prompt.V))
			return
		}
	}
}

// compareHalves asks whether the halves named as many pages. A gap in what a
// sender says shows only at its next fact, so the question waits for that.
func (l *Ledger) compareHalves(h *handoff, t int64, node string) {
	for i, tr := range h.transfers {
		first := func(o *transfer) bool { return o.send == tr.send }
		if slices.IndexFunc(h.transfers, first) == i {
			tr.send.asked = append(tr.send.asked, asked{h, t, node})
		}
	}
}

// asked is a handoff that waits for the next fact of its sender.
type asked struct {
	into *handoff
	t    int64
	node string
}

// answer compares the halves that waited for a fact of the sender.
func (l *Ledger) answer(send *instance) {
	waiting := send.asked
	send.asked = nil
	for _, a := range waiting {
		if !a.into.latecomer && !a.into.room.gone {
			l.pagesMismatch(a.into, send)
			l.settleAt(a.t, a.node)
		}
	}
}

// pagesMismatch: a sender named another number of pages than the receiver did
// for it. Where the handoff is short, short_handoff says so more strongly.
func (l *Ledger) pagesMismatch(h *handoff, send *instance) {
	if !h.startedByReceiver() || h.misnamed { // foreign_page has said that they differ
		return
	}
	if send.seenSince >= h.began || h.recv.seenSince >= h.began {
		return // what was said before is not known
	}
	if h.senderBlank != "" || h.room.blankAt(h.recv) {
		return // nor is all that was said since
	}
	if len(h.transfers) == 1 && h.transfers[0].balanced() {
		return
	}
	targets, sources := map[pageOf]struct{}{}, map[pageOf]struct{}{}
	for _, t := range h.transfers {
		if t.send != send {
			continue
		}
		if t.gone || t.recvTick == 0 && h.recv.seenSince != 0 || t.sendTick == 0 && send.seenSince != 0 {
			return // the rest need not come, or was named before anybody watched
		}
		if t.recvTick != 0 { // else they are those that bytes arrived in
			collect(targets, t.targets)
		}
		collect(sources, t.sources)
	}
	if got, sent, differ := unequal(targets, sources); differ {
		l.accuse(finding.ClaimMismatch, h.recv, h.req, h.room, h.mainPool()).
			say(fmt.Sprintf("the receiver named %d pages", got), fmt.Sprintf("%s named %d", send.name, sent))
	}
}

// balanced reports whether the two sides named one run each, equally long and of
// pages with as many tokens: the common case.
func (t *transfer) balanced() bool {
	if len(t.targets) != 1 || len(t.sources) != 1 {
		return false
	}
	a, b := t.targets[0], t.sources[0]
	return a.count == b.count && a.pool.PageTokens == b.pool.PageTokens
}

// unequal counts the pages of either side, those of as many tokens together, and
// reports where both named some and not as many.
func unequal(targets, sources map[pageOf]struct{}) (got, sent int, differ bool) {
	count := map[int64][2]int{}
	for side, set := range [2]map[pageOf]struct{}{targets, sources} {
		for p := range set {
			n := count[p.pool.PageTokens]
			n[side]++
			count[p.pool.PageTokens] = n
		}
	}
	for _, n := range count {
		if n[0] != n[1] && n[0] > 0 && n[1] > 0 {
			return n[0], n[1], true
		}
	}
	return 0, 0, false
}

// pageOf is a page of a pool. A page that is named twice, by the engine and on
// the wire, counts once.
type pageOf struct {
	pool *pool
	at   uint32
}

func collect(set map[pageOf]struct{}, list []named) {
	for _, n := range list {
		for at := n.first; at < n.first+n.count; at++ {
			set[pageOf{n.pool, at}] = struct{}{}
		}
	}
}
