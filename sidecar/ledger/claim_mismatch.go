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
	type sides struct{ recv, send, tokens int64 }
	bySender := map[*instance]*sides{}
	var order []*instance
	for _, t := range h.transfers {
		s := bySender[t.send]
		if s == nil {
			s = &sides{}
			bySender[t.send] = s
			order = append(order, t.send)
		}
		s.recv += pagesOf(t.targets)
		s.send += pagesOf(t.sources)
		if t.unequalPages() {
			s.tokens = 1
		}
	}
	for _, send := range order {
		s := bySender[send]
		if s.recv == 0 || s.send == 0 || s.recv == s.send || s.tokens != 0 {
			continue
		}
		l.accuse(finding.ClaimMismatch, h.recv, h.req, h.room, h.mainPool()).
			say(fmt.Sprintf("the receiver named %d pages", s.recv), fmt.Sprintf("%s named %d", send.name, s.send))
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

func pagesOf(list []named) (n int64) {
	for _, s := range list {
		n += int64(s.count)
	}
	return n
}
