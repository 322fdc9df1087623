package trial

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
func incident(t testing.TB, p *Pool, scrub bool) (b *Request, secret string) {
	pageTokens := p.Memory().Layout().PageTokens
	secret = fmt.Sprintf("%016x%016x", p.R.Uint64(), p.R.Uint64())
	line := "my secret is " + secret + "\n"
	owed := incidentPages*pageTokens - pageTokens/2
	a := NewRequest(model.Encode([]byte(strings.Repeat(line, owed/len(line)+1)[:owed])), pageTokens/2)
	a.Table = p.HandOut(a.Prompt+a.Limit, 1)
	p.Run(a, 1000)
	p.Release(a.Table)

	table := p.HandOut(owed+pageTokens/2, 2)
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
	prefill := NewRequest([]model.Token{placeholder}, 1)
	prefill.Table = table[:1]
	p.Run(prefill, 1)
	prompt := make([]model.Token, owed)
	for i := range prompt {
		prompt[i] = 'b'
	}
	b = NewRequest(append(prompt, prefill.Answer()...), pageTokens/2-1)
	b.Table, b.Done = table, owed
	return b, secret
}

// decode goes on with B's answer until it ends or a token is refused.
func decode(t testing.TB, p *Pool, q *Request, unchecked bool) error {
	for !q.Ended && len(q.Answer()) < q.Limit {
		s := q.Next(1)
		s.Unchecked = unchecked
		result := &p.Pass(s)[0]
		token, err := result.Sample(model.NewSampler(0, 0))
		if err != nil {
			return err
		}
		q.Done++
		if token == model.EOT {
			q.Ended = true
			continue
		}
		q.Text = append(q.Text, token)
	}
	return nil
}

// StalePagesBecomeSomebodyElsesText promises: with tags off, a stale page speaks: B's answer carries A's secret.
func StalePagesBecomeSomebodyElsesText(t *testing.T, open Open) {
	for _, d := range []reference.DType{reference.Float32, reference.BFloat16} {
		p := open(t, 20, 128, d)
		b, secret := incident(t, p, false)
		if err := decode(t, p, b, true); err != nil {
			t.Fatal(err)
		}
		if got := string(model.Decode(b.Answer())); !strings.Contains(got, secret) {
			t.Fatalf("%v: B's answer is %q, A's secret %q", d, got, secret)
		}
	}
}

// ScrubbedPagesSayNothing promises: in a scrubbed pool the same failure gives a poor answer, but nobody's.
func ScrubbedPagesSayNothing(t *testing.T, open Open) {
	p := open(t, 20, 128, reference.Float32)
	b, secret := incident(t, p, true)
	if err := decode(t, p, b, true); err != nil {
		t.Fatal(err)
	}
	got := string(model.Decode(b.Answer()))
	for i := range len(secret) - 4 {
		if strings.Contains(got, secret[i:i+4]) {
			t.Fatalf("B's answer is %q, A's secret %q", got, secret)
		}
	}
}

// PageTagsAloneStopTheIncident promises: page tags alone stop it: of eight pages owed one was written, seven
// fault, no token leaves, and nothing was written into a page that was not whole.
func PageTagsAloneStopTheIncident(t *testing.T, open Open) {
	for _, pageTokens := range []int{16, 64, 128} {
		p := open(t, 20, pageTokens, reference.Float32)
		b, _ := incident(t, p, false)
		before := len(b.Answer())
		last := int(b.Table[incidentPages-1].Page)
		stale := string(p.Part(1, reference.PartK, last))
		err := decode(t, p, b, false)
		var fault *backend.FaultError
		if !errors.Is(err, backend.ErrPageTag) || !errors.As(err, &fault) {
			t.Fatalf("got %v", err)
		}
		if fault.Pages != incidentPages-1 || len(b.Answer()) != before {
			t.Fatalf("%d pages faulted, %d tokens left", fault.Pages, len(b.Answer())-before)
		}
		want := backend.Fault{
			Block: incidentPages - 1, Page: last,
			Expected: b.Table[incidentPages-1].Tag, Seen: p.Memory().Written(0, last), Moment: backend.BeforeAppend,
		}
		if fault.First != want {
			t.Fatalf("first fault %+v, want %+v", fault.First, want)
		}
		if string(p.Part(1, reference.PartK, last)) != stale {
			t.Fatal("the append wrote into a stale page")
		}
	}
}
