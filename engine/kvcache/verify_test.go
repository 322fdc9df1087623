package kvcache

import (
	"errors"
	"testing"
)

// Each corruption stands for a kind of bookkeeping fault that engines have had;
// the check must name it, or it protects nothing.
func TestCheckNoticesEachKindOfCorruption(t *testing.T) {
	for name, corrupt := range map[string]func(*Pool, *Cache, *Table){
		"free list lost a page":        func(p *Pool, _ *Cache, _ *Table) { p.free = p.free[1:] },
		"free list has a page twice":   func(p *Pool, _ *Cache, _ *Table) { p.free[0] = p.free[1] },
		"held page on the free list":   func(p *Pool, _ *Cache, tab *Table) { p.free[0] = tab.pages[0] },
		"reference count too low":      func(p *Pool, _ *Cache, tab *Table) { p.refs[tab.pages[0]]-- },
		"reference count too high":     func(p *Pool, _ *Cache, tab *Table) { p.refs[tab.pages[0]]++ },
		"page in two tables":           func(_ *Pool, _ *Cache, tab *Table) { tab.pages[3], tab.gens[3] = tab.pages[2], tab.gens[2] },
		"generation moved on":          func(p *Pool, _ *Cache, tab *Table) { p.tags.handOut(tab.pages[0]) },
		"drain count too low":          func(p *Pool, _ *Cache, tab *Table) { p.drains[tab.pages[0]]-- },
		"state counter off":            func(p *Pool, _ *Cache, _ *Table) { p.counts[stateHeld]++ },
		"state wrong":                  func(p *Pool, _ *Cache, tab *Table) { p.move(tab.pages[0], statePending) },
		"child count off":              func(_ *Pool, c *Cache, tab *Table) { c.nodes[tab.pages[0]].children++ },
		"cached page not indexed":      func(p *Pool, _ *Cache, tab *Table) { p.cached[tab.pages[2]] = true },
		"held page may be evicted":     func(_ *Pool, c *Cache, tab *Table) { c.order.place(tab.pages[1], true) },
		"cached in another generation": func(_ *Pool, c *Cache, tab *Table) { c.nodes[tab.pages[0]].gen++ },
		"parent not cached":            func(p *Pool, _ *Cache, tab *Table) { p.cached[tab.pages[0]] = false },
	} {
		t.Run(name, func(t *testing.T) {
			p := newPool(t, func(c *Config) { c.Verify = false })
			c, err := NewCache(p, Secret{})
			must(t, err)
			tab := open(t, p, 1, 4)
			must(t, p.CommitWrite(tab, 0, 8))
			if got := c.Insert(tab, "", []int32{1, 2, 3, 4, 5, 6, 7, 8}); got != 2 {
				t.Fatalf("cached %d pages, want 2", got)
			}
			must(t, p.OpenTransfer(1, tab, 0, 2))
			must(t, p.Check())
			corrupt(p, c, tab)
			var broken *InvariantError
			if err := p.Check(); !errors.As(err, &broken) {
				t.Fatalf("check says %v, want an *InvariantError", err)
			}
		})
	}
}

func TestVerifyStopsAtTheTransitionThatBreaks(t *testing.T) {
	p := newPool(t)
	tab := open(t, p, 1, 2)
	p.refs[tab.pages[0]]++
	defer func() {
		if _, ok := recover().(*InvariantError); !ok {
			t.Fatal("a broken invariant went unnoticed with Verify on")
		}
	}()
	_ = p.Reserve(tab, 1)
}

func TestVerifyIsAskedForByName(t *testing.T) {
	for value, want := range map[string]bool{"all": true, "": false, "1": false} {
		t.Setenv("KVWITNESS_VERIFY", value)
		if got := VerifyFromEnv(); got != want {
			t.Errorf("KVWITNESS_VERIFY=%q: %v, want %v", value, got, want)
		}
	}
}
