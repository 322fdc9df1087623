package oracle

import (
	"slices"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/sidecar/finding"
)

// judgeClaims compares, when a handoff is judged, what was claimed with what
// was seen, and one half of the room with the other (R20 a and c).
func (o *oracle) judgeClaims(h *handoff, f *lifecycle.Fact, a assessment, seen bool, step lifecycle.Opt[int64]) {
	c := o.charges()
	if seen {
		for _, g := range o.claimedPages(h) {
			if g.claimedByTransfer(step) && !g.localBy(step) && !g.allBytes() && g.page.pool.direct() && !g.unknown {
				ch := c.of(finding.ClaimMismatch, f, o.handoffParty(h), g.page.pool.name)
				ch.claim, ch.observation = "the page was written by transfer", "not all of its bytes came"
				if lay, read := o.readThen[g]; read {
					ch.strike(struck{g.page, lay}) // as it was when it was read
				}
				c.generation(ch, g) // what lies there since is nothing to it
			}
		}
	}
	o.say(c)
	if !a.short() && o.completed(h) && h.completedOK() {
		for _, sender := range h.senders() {
			o.asked = append(o.asked, question{h, sender, f})
		}
	}
}

// question is whether the halves of a handoff name as many pages. It waits for
// the next claim about the sender: a gap in what was said before shows there.
type question struct {
	of     *handoff
	sender string
	fact   *lifecycle.Fact
}

// answer answers the questions that waited for a claim about an instance.
func (o *oracle) answer(inst string) {
	waiting := o.asked
	o.asked = nil
	for _, q := range waiting {
		if q.sender != inst {
			o.asked = append(o.asked, q)
			continue
		}
		c := o.charges()
		o.compareHalves(q.of, q.sender, q.fact, c)
		o.say(c)
	}
}

func (h *handoff) completedOK() bool {
	for _, t := range h.transfers() {
		if t.completed {
			return true
		}
	}
	return false
}

// claimedPages are the pages that the handoff named or its request was given, of
// one that is followed: what came before anybody knew its room was nobody's.
func (o *oracle) claimedPages(h *handoff) []*generation {
	gens := h.named()
	seen := map[*generation]bool{}
	for _, g := range gens {
		seen[g] = true
	}
	if r := h.request(); r != nil && (r.begun() || !r.inst.missed) {
		for _, list := range r.given {
			for _, g := range list {
				if !g.shared && !seen[g.gen] {
					gens = append(gens, g.gen)
				}
			}
		}
	}
	return gens
}

// compareHalves: each sender names as many pages as the receiver names for it,
// of pools whose pages have as many tokens.
func (o *oracle) compareHalves(h *handoff, sender string, f *lifecycle.Fact, c *charges) {
	if h.blurred() != "" || h.partial || h.misnamed || h.room.early[h.receiver] {
		return
	}
	if !o.inst(sender).inSight(h.first) || !o.inst(h.receiver).inSight(h.first) {
		return
	}
	var sources, targets []*generation
	for _, t := range h.transfers() {
		if t.sender != sender {
			continue
		}
		if t.gone || !t.received && o.inst(h.receiver).missed || !t.sent && o.inst(sender).missed {
			return // the rest need not come, or was named before anybody watched
		}
		sources, targets = append(sources, t.sources...), append(targets, t.targets...)
	}
	from, to := pagesByTokens(sources), pagesByTokens(targets)
	for tokens, n := range to {
		if from[tokens] > 0 && from[tokens] != n {
			ch := c.of(finding.ClaimMismatch, f, o.handoffParty(h), h.firstPool())
			ch.claim, ch.observation = "the receiver names its pages", "a sender names another number"
		}
	}
}

// pagesByTokens counts pages, each once, by how many tokens they have.
func pagesByTokens(gens []*generation) map[int64]int {
	counts, seen := map[int64]int{}, map[*page]bool{}
	for _, g := range gens {
		if !seen[g.page] {
			seen[g.page] = true
			counts[g.page.pool.spec.PageTokens]++
		}
	}
	return counts
}

// firstPool is the one that the receiver named first.
func (h *handoff) firstPool() string {
	for _, g := range h.named() {
		return g.page.pool.name
	}
	return ""
}

func (h *handoff) senders() (names []string) {
	for _, t := range h.transfers() {
		if !slices.Contains(names, t.sender) {
			names = append(names, t.sender)
		}
	}
	return names
}

// promptMismatch: both halves of a room are admitted with different prompts
// (R20 b). Warm-ups share a room, so they are not compared.
func (o *oracle) promptMismatch(e *entry, r *request) {
	if r.room == nil || !e.PromptTokens.Has || r.room.synthetic || e.Synthetic {
		return
	}
	for _, other := range r.room.at {
		if other != r && other.admitted && other.prompt.Has && other.prompt != e.PromptTokens {
			c := o.charges()
			ch := c.of(finding.ClaimMismatch, e.Fact, o.by(e.Fact), "")
			ch.claim, ch.observation = "the halves of a room have one prompt", "they differ in its length"
			o.say(c)
			return
		}
	}
}
