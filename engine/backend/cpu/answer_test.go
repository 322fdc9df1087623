package cpu

import (
	"slices"
	"testing"

	"github.com/kvwitness/kvwitness/engine/backend"
	"github.com/kvwitness/kvwitness/engine/model"
	"github.com/kvwitness/kvwitness/kernels/reference"
)

// Promise: every answer is the oracle's, whatever the page size, type, chunks,
// neighbours in the batch, places of the pages, and pre-emption with re-entry; in
// pages that are never cleaned, and with no false alarm.
func TestEveryAnswerIsTheOracles(t *testing.T) {
	for _, d := range []reference.DType{reference.Float32, reference.BFloat16} {
		for _, pageTokens := range []int{16, 24, 64, 128} {
			p := newPool(t, 12_000/pageTokens, pageTokens, d)
			for range 6 {
				answerTogether(t, p, 1+p.r.IntN(8))
			}
		}
	}
}

// answerTogether runs n requests in batches of random composition until all ended.
func answerTogether(t *testing.T, p *pool, n int) {
	var all, open []*request
	for range n {
		q := newRequest(p.text(1+p.r.IntN(600)), p.r.IntN(60)+1)
		q.table = p.handOut(q.prompt+q.limit, 0)
		all = append(all, q)
	}
	open = append(open, all...)
	for len(open) > 0 {
		var batch []backend.Sequence
		var members []*request
		for _, q := range open {
			if p.r.IntN(30) == 0 {
				preempt(p, q)
			}
			if p.r.IntN(3) > 0 {
				batch = append(batch, q.next(1+p.r.IntN(300)))
				members = append(members, q)
			}
		}
		results := p.forward(batch...)
		for i, q := range members {
			q.take(t, batch[i], &results[i])
		}
		open = slices.DeleteFunc(open, func(q *request) bool { return q.ended })
	}
	for _, q := range all {
		want, _ := model.ExpectTokens(q.text[:q.prompt], q.limit)
		if !slices.Equal(q.answer(), want) {
			t.Fatalf("prompt %v: answer %v, want %v", q.text[:q.prompt], q.answer(), want)
		}
		p.release(q.table)
	}
}

// preempt takes a request's pages away and gives it others, empty of its text.
func preempt(p *pool, q *request) {
	p.release(q.table)
	p.r.Shuffle(len(p.free), func(i, j int) { p.free[i], p.free[j] = p.free[j], p.free[i] })
	q.table, q.done = p.handOut(q.prompt+q.limit, 0), 0
}

// Promise: positions hold to the end of the longest context, even as bfloat16:
// there the beginning is found, a place 64k tokens from both ends, and the first of
// two places.
func TestLongContextFindsEveryPlace(t *testing.T) {
	const length = model.MaxContext - 128
	p := newPool(t, model.MaxContext/128+8, 128, reference.BFloat16)
	text := model.Encode([]byte("key one is swordfish. "))
	digits := func(until int) {
		for len(text) < until {
			text = append(text, model.Token('0'+p.r.IntN(10)))
		}
	}
	digits(length / 2)
	text = append(text, model.Encode([]byte("key two is mackerel. key two is tuna. "))...)
	digits(length)
	prefix := &request{text: text, table: p.handOut(length, 0)}
	for prefix.done < length {
		s := prefix.next(4096)
		s.Logits = false
		prefix.take(t, s, &p.forward(s)[0])
	}
	for question, want := range map[string]string{"key one is": " swordfish. ", "key two is": " mackerel. "} {
		q := newRequest(append(slices.Clone(text), model.Encode([]byte(question))...), len(want))
		q.done = length
		q.table = append(slices.Clone(prefix.table), p.handOut(len(question)+len(want), 0)...)
		p.run(q, 128)
		if got := string(model.Decode(q.answer())); got != want {
			t.Fatalf("%q is answered %q", question, got)
		}
	}
}

// Promise: a shared prefix serves several readers of its domain from one copy.
func TestSharedPrefixServesSeveralReaders(t *testing.T) {
	p := newPool(t, 40, 16, reference.Float32)
	prefix := p.text(64)
	first := newRequest(append(slices.Clone(prefix), p.text(10)...), 20)
	first.table = p.handOut(first.prompt+first.limit, 9)
	p.run(first, 100)
	for range 3 {
		q := newRequest(append(slices.Clone(prefix), p.text(10)...), 20)
		shared := slices.Clone(first.table[:4])
		q.table, q.done = append(shared, p.handOut(q.prompt+q.limit-64, 9)...), 64
		p.run(q, 100)
		want, _ := model.ExpectTokens(q.text[:q.prompt], q.limit)
		if !slices.Equal(q.answer(), want) {
			t.Fatalf("answer %v, want %v", q.answer(), want)
		}
	}
}

// Promise: at steady state a forward pass allocates nothing.
func TestForwardAllocatesNothing(t *testing.T) {
	p := newPool(t, 16, 64, reference.BFloat16)
	q := newRequest(p.text(300), 1)
	q.table = p.handOut(q.prompt+q.limit, 0)
	batch, results := []backend.Sequence{q.next(300)}, make([]backend.Result, 1)
	if n := testing.AllocsPerRun(5, func() {
		if err := p.Forward(batch, results); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Fatalf("%v allocations", n)
	}
}
