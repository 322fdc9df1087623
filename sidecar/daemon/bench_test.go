package daemon

import (
	"context"
	"fmt"
	"testing"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/sidecar/intake"
)

// BenchmarkJudge is what a fact costs from the wire to its end: decoded, put in
// order among those of eight engines, and judged. Most facts are reads, as those of
// a busy decode are.
func BenchmarkJudge(b *testing.B) {
	const engines, reads = 8, 60
	clock := int64(1e9)
	in := intake.New(intake.Config{Now: func() int64 { return clock }})
	j := judgeOf(b, in, func() int64 { return clock })
	dec := lifecycle.NewMsgpackDecoder()
	var sources []*intake.Source
	for e := range engines {
		sources = append(sources, in.Open(fmt.Sprint(e), func() intake.Standing { return intake.Live }))
	}
	var buf []byte
	seq := make([]uint64, engines)
	put := func(e int, f lifecycle.Fact) {
		clock += 5000 // 200,000 a second
		f.T, f.Inst, f.Node, f.Src, f.Epoch = clock, fmt.Sprint(e), "n", lifecycle.Engine, lifecycle.Some(uint64(1))
		f.Seq = lifecycle.Some(seq[e])
		seq[e]++
		buf = f.AppendMsgpack(buf[:0])
		decoded, err := dec.Decode(buf)
		if err != nil {
			b.Fatal(err)
		}
		sources[e].Put(context.Background(), decoded)
		if clock/5000%200 == 0 {
			j.turn()
		}
	}
	for e := range engines {
		put(e, lifecycle.Fact{Ev: lifecycle.PoolOpened, Pool: "kv", Spec: &lifecycle.PoolSpec{Pages: 17_000, PageTokens: 64}})
	}
	b.ReportAllocs()
	b.ResetTimer()
	for n := 0; n < b.N; {
		for e := range engines {
			req, pages := fmt.Sprint(n), lifecycle.Runs{{First: uint32(1 + n%1000*16), Count: 16}}
			put(e, lifecycle.Fact{Ev: lifecycle.RequestAdmitted, Req: req, PromptTokens: lifecycle.Some(int64(1000))})
			put(e, lifecycle.Fact{Ev: lifecycle.PagesReserved, Req: req, Pool: "kv", Pages: pages})
			put(e, lifecycle.Fact{Ev: lifecycle.PagesWritten, Req: req, Pool: "kv", Pages: pages, By: lifecycle.ByForward})
			for step := range int64(reads) {
				put(e, lifecycle.Fact{Ev: lifecycle.PagesRead, Req: req, Pool: "kv", Pages: pages, Step: lifecycle.Some(step)})
			}
			put(e, lifecycle.Fact{Ev: lifecycle.RequestFinished, Req: req, HTTPStatus: 200})
			put(e, lifecycle.Fact{Ev: lifecycle.PagesReleased, Req: req, Pool: "kv", Pages: pages})
			n += reads + 5
		}
	}
	if s := j.ledger.Stats(); s.Late > 0 || s.Missing > 0 {
		b.Fatalf("%d late, %d missing", s.Late, s.Missing)
	}
}
