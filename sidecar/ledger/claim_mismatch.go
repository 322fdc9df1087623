package ledger

import (
	"fmt"

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
		b.say("written by transfer", "not one complete write was seen, with every incoming write watched")
	}
}

// promptMismatch: the halves of a room were admitted with different prompts.
func (l *Ledger) promptMismatch(c *call) {
	if !c.f.PromptTokens.Has || c.room.id == "" {
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

// pagesMismatch: a sender named another number of pages than the receiver did
// for it. Where the handoff is short, short_handoff says so more strongly.
func (l *Ledger) pagesMismatch(h *handoff) {
	if h.latecomer {
		return
	}
	type sides struct {
		recv, send map[pageOf]struct{}
		unequal    bool
	}
	bySender := map[*instance]*sides{}
	var order []*instance
	for _, t := range h.transfers {
		s := bySender[t.send]
		if s == nil {
			s = &sides{recv: map[pageOf]struct{}{}, send: map[pageOf]struct{}{}}
			bySender[t.send] = s
			order = append(order, t.send)
		}
		collect(s.recv, t.targets)
		collect(s.send, t.sources)
		s.unequal = s.unequal || t.unequalPages()
	}
	for _, send := range order {
		s := bySender[send]
		if send.seenSince >= h.began || h.recv.seenSince >= h.began {
			continue // what was said before is not known
		}
		if len(s.recv) == 0 || len(s.send) == 0 || len(s.recv) == len(s.send) || s.unequal {
			continue
		}
		l.accuse(finding.ClaimMismatch, h.recv, h.req, h.room, h.mainPool()).
			say(fmt.Sprintf("the receiver named %d pages", len(s.recv)), fmt.Sprintf("%s named %d", send.name, len(s.send)))
	}
}

// unequalPages reports whether pages of the two sides hold different numbers of
// tokens, so that their counts cannot be compared.
func (t *transfer) unequalPages() bool {
	for _, a := range t.targets {
		for _, b := range t.sources {
			if a.pool.PageTokens != b.pool.PageTokens {
				return true
			}
		}
	}
	return false
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
