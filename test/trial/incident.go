package cpu

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/kvwitness/kvwitness/engine/backend"
	"github.com/kvwitness/kvwitness/engine/model"
	"github.com/kvwitness/kvwitness/kernels/reference"
)

const (
	incidentPages = 8
	placeholder   = model.BOS
)

// incident plays the memory's part of the incident: tenant A fills eight pages and
// ends; tenant B is handed the same eight for a prompt that fills them nearly; one
// is written, with a placeholder token instead of the prompt; decode goes on after
// the prompt's length as if all had come. It returns the request of B, whose text
// is the prompt and the first token that prefill sampled.
func incident(t *testing.T, p *pool, scrub bool) (b *request, secret string) {
	pageTokens := p.memory.layout.PageTokens
	secret = fmt.Sprintf("%016x%016x", p.r.Uint64(), p.r.Uint64())
	line := "my secret is " + secret + "\n"
	owed := incidentPages*pageTokens - pageTokens/2
	a := newRequest(model.Encode([]byte(strings.Repeat(line, owed/len(line)+1)[:owed])), pageTokens/2)
	a.table = p.handOut(a.prompt+a.limit, 1)
	p.run(a, 1000)
	p.release(a.table)

	table := p.handOut(owed+pageTokens/2, 2)
	if len(table) != incidentPages {
		t.Fatalf("%d pages handed out", len(table))
	}
	if scrub {
		for _, block := range table {
			if err := p.Scrub(int(block.Page)); err != nil {
				t.Fatal(err)
			}
		}
	}
	prefill := newRequest([]model.Token{placeholder}, 1)
	prefill.table = table[:1]
	p.run(prefill, 1)
	prompt := make([]model.Token, owed)
	for i := range prompt {
		prompt[i] = 'b'
	}
	b = newRequest(append(prompt, prefill.answer()...), pageTokens/2-1)
	b.table, b.done = table, owed
	return b, secret
}

// decode goes on with B's answer until it ends or a token is refused.
func decode(t *testing.T, p *pool, q *request, unchecked bool) error {
	for !q.ended && len(q.answer()) < q.limit {
		s := q.next(1)
		s.Unchecked = unchecked
		result := &p.forward(s)[0]
		token, err := result.Sample(model.NewSampler(0, 0))
		if err != nil {
			return err
		}
		q.done++
		if token == model.EOT {
			q.ended = true
			continue
		}
		q.text = append(q.text, token)
	}
	return nil
}

// Promise: with tags off, a stale page speaks: B's answer carries A's secret.
func TestStalePagesBecomeSomebodyElsesText(t *testing.T) {
	for _, d := range []reference.DType{reference.Float32, reference.BFloat16} {
		p := newPool(t, 20, 128, d)
		b, secret := incident(t, p, false)
		if err := decode(t, p, b, true); err != nil {
			t.Fatal(err)
		}
		if got := string(model.Decode(b.answer())); !strings.Contains(got, secret) {
			t.Fatalf("%v: B's answer is %q, A's secret %q", d, got, secret)
		}
	}
}

// Promise: in a scrubbed pool the same failure gives a poor answer, but nobody's.
func TestScrubbedPagesSayNothing(t *testing.T) {
	p := newPool(t, 20, 128, reference.Float32)
	b, secret := incident(t, p, true)
	if err := decode(t, p, b, true); err != nil {
		t.Fatal(err)
	}
	got := string(model.Decode(b.answer()))
	for i := range len(secret) - 4 {
		if strings.Contains(got, secret[i:i+4]) {
			t.Fatalf("B's answer is %q, A's secret %q", got, secret)
		}
	}
}

// Promise: page tags alone stop it: of eight pages owed one was written, seven
// fault, no token leaves, and nothing was written into a page that was not whole.
func TestPageTagsAloneStopTheIncident(t *testing.T) {
	for _, pageTokens := range []int{16, 64, 128} {
		p := newPool(t, 20, pageTokens, reference.Float32)
		b, _ := incident(t, p, false)
		before := len(b.answer())
		last := int(b.table[incidentPages-1].Page)
		stale := string(p.memory.part(1, reference.PartK, last))
		err := decode(t, p, b, false)
		var fault *backend.FaultError
		if !errors.Is(err, backend.ErrPageTag) || !errors.As(err, &fault) {
			t.Fatalf("got %v", err)
		}
		if fault.Pages != incidentPages-1 || len(b.answer()) != before {
			t.Fatalf("%d pages faulted, %d tokens left", fault.Pages, len(b.answer())-before)
		}
		want := backend.Fault{
			Block: incidentPages - 1, Page: last,
			Expected: b.table[incidentPages-1].Tag, Seen: p.memory.Written(0, last), Moment: backend.BeforeAppend,
		}
		if fault.First != want {
			t.Fatalf("first fault %+v, want %+v", fault.First, want)
		}
		if string(p.memory.part(1, reference.PartK, last)) != stale {
			t.Fatal("the append wrote into a stale page")
		}
	}
}
