package kvcache

import (
	"fmt"
	"os"
)

// VerifyFromEnv says whether the environment asks for the invariants
// (KVWITNESS_VERIFY=all). The owner of a pool reads it once, for Config.Verify.
func VerifyFromEnv() bool { return os.Getenv("KVWITNESS_VERIFY") == "all" }

// InvariantError says that the books contradict themselves. To go on would hand
// somebody's pages to somebody else.
type InvariantError struct {
	Pool string
	Rule string
}

func (e *InvariantError) Error() string {
	return fmt.Sprintf("pool %q contradicts itself: %s", e.Pool, e.Rule)
}

func (p *Pool) verify() {
	if !p.cfg.Verify {
		return
	}
	if err := p.Check(); err != nil {
		panic(err)
	}
}

// Damaged says whether a drill broke the books; Check is silent from then on.
func (p *Pool) Damaged() bool { return p.damaged }

// Check recounts everything from the block tables, the cache and the open
// transfers, and returns an *InvariantError for the first rule that is broken.
func (p *Pool) Check() error {
	if p.damaged {
		return nil
	}
	for _, rule := range []func() string{p.checkBalance, p.checkFree, p.checkRefs, p.checkDrains, p.checkCache} {
		if broken := rule(); broken != "" {
			return &InvariantError{Pool: p.cfg.Name, Rule: broken}
		}
	}
	return nil
}

func (p *Pool) checkBalance() string {
	var counts [stateCount]int
	for _, s := range p.state {
		counts[s]++
	}
	if counts != p.counts {
		return fmt.Sprintf("counted %v pages by state, the books say %v", counts, p.counts)
	}
	if a := p.Audit(); !a.Balanced() {
		return fmt.Sprintf("the audit %+v does not add up", a)
	}
	return ""
}

func (p *Pool) checkFree() string {
	seen := make([]bool, p.cfg.Pages)
	for _, pg := range p.free {
		if seen[pg] {
			return fmt.Sprintf("page %d is twice on the free list", pg)
		}
		seen[pg] = true
	}
	for pg, s := range p.state {
		if seen[pg] != (s == stateFree) {
			return fmt.Sprintf("page %d is %s, on the free list: %v", pg, s, seen[pg])
		}
	}
	return ""
}

func (p *Pool) checkRefs() string {
	refs := make([]int32, p.cfg.Pages)
	for _, t := range p.tables {
		if t.copying {
			refs[t.source]++
		}
		for i, pg := range t.pages {
			refs[pg]++
			if p.tags.HandedOut(pg) != t.gens[i] {
				return fmt.Sprintf("request %d holds page %d in generation %d, it was handed out in %d", t.req, pg, t.gens[i], p.tags.HandedOut(pg))
			}
			if i >= t.shared && refs[pg] > 1 && !p.cached[pg] {
				return fmt.Sprintf("page %d is held twice and not shared", pg)
			}
		}
	}
	for pg, n := range refs {
		if n != p.refs[pg] {
			return fmt.Sprintf("page %d has %d holders, the books say %d", pg, n, p.refs[pg])
		}
		if want := p.stateOf(PageID(pg)); want != p.state[pg] {
			return fmt.Sprintf("page %d is %s, want %s", pg, p.state[pg], want)
		}
	}
	return ""
}

func (p *Pool) stateOf(pg PageID) pageState {
	switch {
	case pg == NullPage:
		return stateNull
	case p.refs[pg] > 0:
		return stateHeld
	case p.cached[pg]:
		return stateCached
	case p.drains[pg] > 0:
		return statePending
	}
	return stateFree
}

func (p *Pool) checkDrains() string {
	drains := make([]int32, p.cfg.Pages)
	for _, tr := range p.xfers {
		for _, pg := range tr.pages {
			drains[pg]++
		}
	}
	for pg, n := range drains {
		if n != p.drains[pg] {
			return fmt.Sprintf("page %d has %d open transfers, the books say %d", pg, n, p.drains[pg])
		}
	}
	return ""
}

func (p *Pool) checkCache() string {
	if p.cache == nil {
		return ""
	}
	c, children := p.cache, make([]int32, p.cfg.Pages)
	for key, pg := range c.index {
		n := &c.nodes[pg]
		children[n.parent]++
		switch {
		case !p.cached[pg] || n.key != key:
			return fmt.Sprintf("page %d is indexed under a key that is not its own", pg)
		case n.gen != p.tags.HandedOut(pg):
			return fmt.Sprintf("page %d is cached in generation %d, it was handed out in %d", pg, n.gen, p.tags.HandedOut(pg))
		case n.parent != NullPage && !p.cached[n.parent]:
			return fmt.Sprintf("page %d continues page %d, which is not cached", pg, n.parent)
		}
	}
	cached := 0
	for pg := range c.nodes {
		if !p.cached[pg] {
			continue
		}
		cached++
		if n := c.nodes[pg].children; n != children[pg] {
			return fmt.Sprintf("page %d has %d children, the cache says %d", pg, children[pg], n)
		}
		if in := c.order.at[pg] >= 0; in != (p.refs[pg] == 0 && children[pg] == 0) {
			return fmt.Sprintf("page %d may be evicted: %v, in the order of eviction: %v", pg, !in, in)
		}
	}
	if cached != len(c.index) {
		return fmt.Sprintf("%d pages are marked as cached, %d are indexed", cached, len(c.index))
	}
	return ""
}
