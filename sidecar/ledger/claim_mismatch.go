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
		b.say("written by transfer", "not one complete write was seen, with every incoming write watched")
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
	if !h.startedByReceiver() {
		return
	}
	if send.seenSince >= h.began || h.recv.seenSince >= h.began {
		return // what was said before is not known
	}
	if h.strange || h.room.blankAt(h.recv, send) {
		return // nor is all that was said since
	}
	recv, sent := 0, 0
	for _, t := range h.transfers {
		if t.send != send {
			continue
		}
		if t.unequalPages() {
			return
		}
		recv, sent = recv+count(t.targets), sent+count(t.sources)
	}
	if recv == sent || recv == 0 || sent == 0 {
		return
	}
	targets, sources := map[pageOf]struct{}{}, map[pageOf]struct{}{}
	for _, t := range h.transfers {
		if t.send == send {
			collect(targets, t.targets)
			collect(sources, t.sources)
		}
	}
	if len(targets) != len(sources) {
		l.accuse(finding.ClaimMismatch, h.recv, h.req, h.room, h.mainPool()).
			say(fmt.Sprintf("the receiver named %d pages", len(targets)), fmt.Sprintf("%s named %d", send.name, len(sources)))
	}
}

func count(list []named) (n int) {
	for _, s := range list {
		n += int(s.count)
	}
	return n
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
