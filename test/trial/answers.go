package trial

import (
	"slices"
	"testing"

	"github.com/kvwitness/kvwitness/engine/backend"
	"github.com/kvwitness/kvwitness/engine/model"
	"github.com/kvwitness/kvwitness/kernels/reference"
)

// EveryAnswerIsTheOracles promises: every answer is the oracle's, whatever the page size, type, chunks,
// neighbours in the batch, places of the pages, and pre-emption with re-entry; in
// pages that are never cleaned, and with no false alarm.
func EveryAnswerIsTheOracles(t *testing.T, open Open, rounds int, types ...reference.DType) {
	for _, d := range types {
		for _, pageTokens := range []int{16, 24, 64, 128} {
			p := open(t, 12_000/pageTokens, pageTokens, d)
			for range rounds {
				answerTogether(t, p, 1+p.R.IntN(8))
			}
		}
	}
}

// answerTogether runs n requests in batches of random composition until all ended.
func answerTogether(t *testing.T, p *Pool, n int) {
	var all, open []*Request
	for range n {
		q := NewRequest(p.Text(1+p.R.IntN(600)), p.R.IntN(60)+1)
		q.Table = p.HandOut(q.Prompt+q.Limit, 0)
		all = append(all, q)
	}
	open = append(open, all...)
	for len(open) > 0 {
		var batch []backend.Sequence
		var members []*Request
		for _, q := range open {
			if p.R.IntN(30) == 0 {
				preempt(p, q)
			}
			if p.R.IntN(3) > 0 {
				batch = append(batch, q.Next(1+p.R.IntN(300)))
				members = append(members, q)
			}
		}
		results := p.Pass(batch...)
		for i, q := range members {
			q.Take(t, batch[i], &results[i])
		}
		open = slices.DeleteFunc(open, func(q *Request) bool { return q.Ended })
	}
	for _, q := range all {
		want, _ := model.ExpectTokens(q.Text[:q.Prompt], q.Limit)
		if !slices.Equal(q.Answer(), want) {
			t.Fatalf("prompt %v: answer %v, want %v", q.Text[:q.Prompt], q.Answer(), want)
		}
		p.Release(q.Table)
	}
}

// preempt takes a request's pages away and gives it others, empty of its text.
func preempt(p *Pool, q *Request) {
	p.Release(q.Table)
	p.R.Shuffle(len(p.Free), func(i, j int) { p.Free[i], p.Free[j] = p.Free[j], p.Free[i] })
	q.Table, q.Done = p.HandOut(q.Prompt+q.Limit, 0), 0
}
