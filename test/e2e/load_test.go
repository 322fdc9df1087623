package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kvwitness/kvwitness/engine/model"
	"github.com/kvwitness/kvwitness/engine/process"
	"github.com/kvwitness/kvwitness/engine/scheduler"
)

// loadTime is how long the clients go on: E2E_LOAD, or 20 s.
func loadTime(t *testing.T) time.Duration {
	text := os.Getenv("E2E_LOAD")
	if text == "" {
		return 20 * time.Second
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

const clients = 64

// tally counts what the clients saw.
type tally struct{ right, left, full, wrong atomic.Int64 }

// Promise: 64 clients at once, many of whom leave in the middle, and never a wrong
// answer; at the end no page is lost, none is held twice, and what the engines said
// of it accuses nobody.
func TestManyClientsAndNoWrongAnswer(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	tight := func(_ scheduler.Role, c *process.Config) { c.Worker.Pages = 97 } // so that requests are preempted
	for name, begin := range map[string]func(t *testing.T) *cluster{
		"unified": func(t *testing.T) *cluster { return alone(t, tight) },
		"disaggregated": func(t *testing.T) *cluster {
			c, err := disaggregated(t, tight)
			if err != nil {
				t.Fatal(err)
			}
			return c
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := begin(t)
			var n tally
			var wg sync.WaitGroup
			end := time.Now().Add(loadTime(t) / 2)
			for i := range clients {
				wg.Go(func() { c.client(rand.New(rand.NewPCG(seed, uint64(i))), end, &n) })
			}
			wg.Wait()
			c.rest()
			t.Logf("%d right, %d left, %d were told to come again", n.right.Load(), n.left.Load(), n.full.Load())
			if n.wrong.Load() > 0 || n.right.Load() < clients {
				t.Fatalf("%d wrong answers, %d right", n.wrong.Load(), n.right.Load())
			}
			c.expectFindings()
		})
	}
}

// client asks until end; each answer depends on its own prompt alone.
func (c *cluster) client(r *rand.Rand, end time.Time, n *tally) {
	for time.Now().Before(end) {
		prompt := randomPrompt(r)
		maxTokens := 1 + r.IntN(24)
		body, _ := json.Marshal(map[string]any{
			"prompt": prompt, "max_tokens": maxTokens, "stream": r.IntN(2) == 0, "cache_salt": fmt.Sprint(r.IntN(3)),
		})
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		if r.IntN(4) == 0 {
			time.AfterFunc(time.Duration(r.IntN(300))*time.Millisecond, cancel)
		}
		a, err := ask(ctx, c.url+"/v1/completions", "", body)
		aborted := ctx.Err() != nil
		cancel()
		switch {
		case err != nil && aborted && !errors.Is(ctx.Err(), context.DeadlineExceeded):
			n.left.Add(1)
		case err != nil:
			n.wrong.Add(1)
			c.t.Errorf("no answer: %v", err)
		case a.status == 429:
			n.full.Add(1)
			time.Sleep(20 * time.Millisecond)
		case a.status != 200:
			n.wrong.Add(1)
			c.t.Errorf("status %d: %s", a.status, a.raw)
		default:
			n.judge(c.t, a, prompt, maxTokens)
		}
	}
}

func (n *tally) judge(t testing.TB, a answer, prompt string, maxTokens int) {
	want := string(model.Expect([]byte(prompt), maxTokens))
	if a.text != want {
		n.wrong.Add(1)
		t.Errorf("wrong answer to a prompt of %d bytes: %q, want %q", len(prompt), a.text, want)
		return
	}
	n.right.Add(1)
}

// randomPrompt shares its beginning with others', so that the prefix cache is hit,
// and says in its middle what only its own answer can be.
func randomPrompt(r *rand.Rand) string {
	var b strings.Builder
	b.WriteString(strings.Repeat("a common beginning of some length. ", r.IntN(4)))
	for range 1 + r.IntN(6) {
		fmt.Fprintf(&b, "k%d=%08x; ", r.IntN(4), r.Uint32())
	}
	fmt.Fprintf(&b, "k%d=", r.IntN(4))
	return b.String()
}
