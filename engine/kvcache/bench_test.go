package kvcache

import (
	"fmt"
	"testing"
	"time"
)

func bigPool(tb testing.TB, pages, size int) (*Pool, *Cache) {
	tb.Helper()
	p, err := New(Config{Name: "kv", Pages: pages, PageTokens: size})
	must(tb, err)
	c, err := NewCache(p, Secret{1})
	must(tb, err)
	return p, c
}

func BenchmarkReserveRelease(b *testing.B) {
	for _, pages := range []int{1, 64, 4096} {
		b.Run(fmt.Sprint(pages), func(b *testing.B) {
			p, _ := bigPool(b, 1<<16, 16)
			b.ReportAllocs()
			for b.Loop() {
				t, _ := p.Open(1, "", 0)
				if err := p.Reserve(t, pages); err != nil {
					b.Fatal(err)
				}
				if err := p.Release(t); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkPrefixMatch(b *testing.B) {
	for _, pages := range []int{1, 64, 4096} {
		b.Run(fmt.Sprint(pages), func(b *testing.B) {
			p, c := bigPool(b, 1<<16, 16)
			tokens := seq(0, pages*16)
			store(b, p, c, 1, "", tokens)
			b.ReportAllocs()
			for b.Loop() {
				if m := c.Match("", tokens, pages, 0); len(m.Pages) != pages {
					b.Fatal("no match")
				}
			}
		})
	}
}

func BenchmarkEvictUnderPressure(b *testing.B) {
	p, c := bigPool(b, 1<<12, 16)
	for i := range 1 << 12 {
		store(b, p, c, Req(i+1), "", seq(i*1000, 16))
	}
	b.ReportAllocs()
	i := 1 << 13
	for b.Loop() {
		i++
		store(b, p, c, Req(i), "", seq(i*1000, 16))
	}
}

func BenchmarkSnapshotOfAMillionPages(b *testing.B) {
	p, _ := bigPool(b, 1<<20, 16)
	for i := range 64 {
		t, _ := p.Open(Req(i+1), "", 0)
		if err := p.Reserve(t, 15_000); err != nil {
			b.Fatal(err)
		}
	}
	var s Snapshot
	p.Snapshot(&s)
	for b.Loop() {
		p.Snapshot(&s)
	}
}

// A step of a running batch must not make garbage: the engine's latency is the
// tenant's.
func TestSteadyStateAllocatesNothing(t *testing.T) {
	p, c := bigPool(t, 1<<10, 16)
	tokens := seq(0, 16*20)
	store(t, p, c, 1, "", tokens)
	tab, err := p.Open(2, "", 0)
	must(t, err)
	must(t, c.Share(tab, c.Match("", tokens, 20, 0)))
	must(t, p.Reserve(tab, 20))
	now := int64(0)
	allocs := testing.AllocsPerRun(200, func() {
		now += int64(time.Millisecond)
		p.Advance(now, uint64(now))
		c.Match("", tokens, 20, 0)
		must(t, p.LaunchWrite(tab, 320, 340))
		must(t, p.Read(tab, 340))
		must(t, p.CommitWrite(tab, 320, 340))
		p.Expire()
		p.Audit()
	})
	if allocs != 0 {
		t.Fatalf("%v allocations a step, want none", allocs)
	}
}
