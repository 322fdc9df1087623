package model

import (
	"testing"
	"time"

	"github.com/kvwitness/kvwitness/engine/backend"
	"github.com/kvwitness/kvwitness/engine/backend/cpu"
	"github.com/kvwitness/kvwitness/engine/model"
)

// timed is a network that says how long each of its parts took.
type timed struct {
	model.Network
	embed, keys, queries, combine, logits time.Duration
}

func took(at *time.Duration, begun time.Time) { *at += time.Since(begun) }

func (n *timed) Embed(tokens []model.Token, positions []int, x []float32) {
	defer took(&n.embed, time.Now())
	n.Network.Embed(tokens, positions, x)
}

func (n *timed) Keys(layer int, positions []int, x, keys, values []float32) {
	defer took(&n.keys, time.Now())
	n.Network.Keys(layer, positions, x, keys, values)
}

func (n *timed) Queries(layer int, positions []int, x, queries []float32) {
	defer took(&n.queries, time.Now())
	n.Network.Queries(layer, positions, x, queries)
}

func (n *timed) Combine(layer int, x, attended []float32) {
	defer took(&n.combine, time.Now())
	n.Network.Combine(layer, x, attended)
}

func (n *timed) Logits(x, logits []float32) {
	defer took(&n.logits, time.Now())
	n.Network.Logits(x, logits)
}

// BenchmarkWhereTheTimeGoes is the real model's prompt of 256 tokens in one pass, and
// one token after 256 and after 1,536: in percent, what goes into the matrices of keys
// and values, of queries, of what follows attention (its output and the feed-forward
// network), of the logits, and what is left for pages, tags and attention.
func BenchmarkWhereTheTimeGoes(b *testing.B) {
	for _, c := range []struct {
		name          string
		start, tokens int
	}{{"prompt=256", 0, 256}, {"token-after=256", 256, 1}, {"token-after=1536", 1536, 1}} {
		b.Run(c.name, func(b *testing.B) {
			n := &timed{Network: load(b).Network}
			be, err := cpu.New(n, cpu.Config{Pages: 128, PageTokens: pageTokens})
			if err != nil {
				b.Fatal(err)
			}
			defer be.Close()
			pass := func(start, count int) {
				s := backend.Sequence{Tokens: make([]model.Token, count), Start: start, Table: table(128, 1), Logits: true}
				if err := be.Forward([]backend.Sequence{s}, make([]backend.Result, 1)); err != nil {
					b.Fatal(err)
				}
			}
			if c.start > 0 {
				pass(0, c.start)
			}
			*n = timed{Network: n.Network}
			begun := time.Now()
			for b.Loop() {
				pass(c.start, c.tokens)
			}
			whole := time.Since(begun)
			rest := whole
			for part, spent := range map[string]time.Duration{
				"keys": n.keys, "queries": n.queries, "combine": n.combine, "logits": n.logits, "embed": n.embed,
			} {
				rest -= spent
				b.ReportMetric(100*float64(spent)/float64(whole), part+"-%")
			}
			b.ReportMetric(100*float64(rest)/float64(whole), "pages-%")
		})
	}
}
