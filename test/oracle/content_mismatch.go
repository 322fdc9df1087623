package oracle

import (
	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/sidecar/finding"
)

// digestKey is one page of a prompt in one room.
type digestKey struct {
	room *room
	pool string
	page lifecycle.Opt[int64]
}

// digests are what either side said of it, by instance.
type digests struct {
	sent, received map[string]string
	said           map[[2]string]bool // pairs of instances that differ
}

// contentMismatch applies content_digest (R29): sender and receiver must be
// joined by a transfer, and no other sender may write to that receiver.
func (o *oracle) contentMismatch(e *entry) {
	r := o.room(e.Room)
	k := digestKey{r, e.Pool, e.PromptPage}
	d := o.digests[k]
	if d == nil {
		d = &digests{map[string]string{}, map[string]string{}, map[[2]string]bool{}}
		o.digests[k] = d
	}
	if e.Side == lifecycle.Sender {
		d.sent[e.Inst] = e.Digest
	} else {
		d.received[e.Inst] = e.Digest
	}
	for _, h := range r.handoffs {
		senders := h.senders()
		if len(senders) != 1 || e.Inst != h.receiver && e.Inst != senders[0] {
			continue
		}
		sent, a := d.sent[senders[0]]
		got, b := d.received[h.receiver]
		if !a || !b || sent == got {
			continue
		}
		c := o.charges()
		ch := c.of(finding.ContentMismatch, e.Fact, o.handoffParty(h), e.Pool)
		ch.claim, ch.observation = "the content was handed over", "the digests of the two sides differ"
		if g := o.promptPage(h, e); g != nil && g.page.gen == g {
			c.page(ch, g.page)
		} else if g != nil {
			ch.strike(struck{g.page, nil})
		}
		o.say(c)
	}
}

// promptPage is the page of the receiver that a digest is about, as it was given, nil where
// that is not known.
func (o *oracle) promptPage(h *handoff, e *entry) *generation {
	r := h.request()
	p := o.inst(h.receiver).pools[e.Pool]
	if r == nil || p == nil || !e.PromptPage.Has || p.spec.PageTokens <= 0 {
		return nil
	}
	list := r.given[p]
	n := e.PromptPage.V
	if prompt := o.promptOf(h); prompt.Has && int64(len(list)) < ceil(prompt.V, p.spec.PageTokens) {
		n -= o.prefixOf(h) / p.spec.PageTokens
	}
	if n < 0 || n >= int64(len(list)) {
		return nil
	}
	return list[n].gen
}
