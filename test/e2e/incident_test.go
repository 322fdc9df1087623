package e2e

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/kvwitness/kvwitness/engine/api"
	"github.com/kvwitness/kvwitness/engine/drill"
	"github.com/kvwitness/kvwitness/engine/process"
	"github.com/kvwitness/kvwitness/engine/scheduler"
	"github.com/kvwitness/kvwitness/engine/worker"
	"github.com/kvwitness/kvwitness/sidecar/finding"
)

// The incident to scale: decode holds 8 pages of 64 tokens, prefill 4; the context
// that both declare is 512 tokens. Tenant A leaves its text in all of decode's
// pages; tenant B's prompt of 480 tokens fits the context and not prefill's pool.
const (
	incidentTokens = 64
	incidentPages  = 8
	owedTokens     = incidentPages*incidentTokens - incidentTokens/2
)

// incident settings: what is kept on in spite of the drill, and what is off.
type incident struct {
	drill     scheduler.Drill
	keep, off []scheduler.Protection
	scrub     bool
}

func (i incident) setup(t testing.TB) setup {
	keys, err := api.ParseKeys([]byte("alpha key-a\nbeta key-b\n"))
	if err != nil {
		t.Fatal(err)
	}
	return func(role scheduler.Role, c *process.Config) {
		c.Keys = keys
		w := &c.Worker
		w.PageTokens, w.Pages, w.ContextTokens = incidentTokens, incidentPages+1, incidentPages*incidentTokens
		w.Drill, w.Keep, w.Off, w.Scrub = i.drill, i.keep, i.off, i.scrub
		if role == scheduler.Prefill {
			w.Pages = incidentPages/2 + 1
		}
	}
}

// play has A say its secret, and B ask.
func play(t testing.TB, c *cluster) (b answer, secret string) {
	t.Helper()
	var raw [8]byte
	_, _ = rand.Read(raw[:])
	secret = hex.EncodeToString(raw[:])
	line := "my secret is " + secret + "\n"
	a := c.complete("key-a", strings.Repeat(line, 10)[:200], incidentPages*incidentTokens-200)
	if a.status != 200 || !strings.Contains(a.text, secret) {
		t.Fatalf("A is answered %d %s", a.status, a.raw)
	}
	return c.complete("key-b", strings.Repeat("b", owedTokens), incidentTokens/2), secret
}

// leaks says whether a text holds seven characters in a row of the secret: fewer are
// in a room's number by chance.
func leaks(text, secret string) bool {
	const enough = 7
	for i := range len(secret) - enough + 1 {
		if strings.Contains(text, secret[i:i+enough]) {
			return true
		}
	}
	return false
}

// Promise: with its protections off, the drill is the incident: HTTP 200, and A's
// secret in B's answer. The recorded streams give the findings of the incident.
func TestRejectedHandoffLeaksTheSecret(t *testing.T) {
	i := incident{drill: scheduler.RejectedHandoff}
	c, err := disaggregated(t, i.setup(t))
	if err != nil {
		t.Fatal(err)
	}
	b, secret := play(t, c)
	if b.status != 200 || !strings.Contains(b.text, secret) {
		t.Fatalf("B is answered %d %q, A's secret is %s", b.status, b.text, secret)
	}
	c.rest()
	c.expectFindings(drill.Expected(scheduler.RejectedHandoff).Findings...)
}

// Promise: in a scrubbed pool the same failure gives a poor answer, but nobody's.
func TestAScrubbedPoolHasNoSecretToTell(t *testing.T) {
	i := incident{drill: scheduler.RejectedHandoff, scrub: true}
	c, err := disaggregated(t, i.setup(t))
	if err != nil {
		t.Fatal(err)
	}
	b, secret := play(t, c)
	if b.status != 200 || leaks(b.text, secret) {
		t.Fatalf("B is answered %d %q, A's secret is %s", b.status, b.text, secret)
	}
}

// Promise: any single one of the drill's protections stops it, and says so; the
// test prints the table.
func TestEachProtectionAloneStopsRejectedHandoff(t *testing.T) {
	table := "rejected-handoff with only this one of its protections:\n"
	for _, p := range scheduler.RejectedHandoff.Spec().Off {
		t.Run(p.String(), func(t *testing.T) {
			i := incident{drill: scheduler.RejectedHandoff, keep: []scheduler.Protection{p}}
			c, err := disaggregated(t, i.setup(t))
			if p == scheduler.PoolGate {
				if !errors.Is(err, scheduler.ErrContextExceedsPool) {
					t.Fatalf("prefill starts: %v", err)
				}
				if want, stops := drill.Stops(i.drill, p); want != drill.Refuses || !stops {
					t.Errorf("the table says %d", want)
				}
				table += fmt.Sprintf("  %-20s stops it: refuses to start\n", p)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			b, secret := play(t, c)
			if b.status == 200 || leaks(b.raw, secret) {
				t.Fatalf("B is answered %d %q, A's secret is %s", b.status, b.raw, secret)
			}
			if want, _ := drill.Stops(i.drill, p); b.status != want {
				t.Errorf("B is answered %d, the table says %d", b.status, want)
			}
			if c.stopped(p) == 0 {
				t.Fatalf("B is answered %d %s, and %s did not say that it stopped anything", b.status, b.raw, p)
			}
			table += fmt.Sprintf("  %-20s stops it: %d\n", p, b.status)
			c.rest()
		})
	}
	t.Log(table)
}

// stopped counts how often a protection stopped something, in all engines.
func (c *cluster) stopped(p scheduler.Protection) (n uint64) {
	for _, e := range c.processes() {
		c.look(e, func(v worker.View) bool { n += v.Scheduler.Stats().Stopped[p]; return true })
	}
	return n
}

// Promise: page tags alone, with every other protection off, find the seven pages
// that nobody wrote.
func TestPageTagsAloneFindSevenFaults(t *testing.T) {
	i := incident{drill: scheduler.RejectedHandoff, keep: []scheduler.Protection{scheduler.PageTags}}
	for p := range scheduler.NumProtections {
		if p != scheduler.PageTags {
			i.off = append(i.off, p)
		}
	}
	c, err := disaggregated(t, i.setup(t))
	if err != nil {
		t.Fatal(err)
	}
	b, secret := play(t, c)
	if b.status != 500 || leaks(b.raw, secret) || !strings.Contains(b.raw, `"page_tag"`) {
		t.Fatalf("B is answered %d %q", b.status, b.raw)
	}
	if n := c.decode.Worker.TagFaults(); n != incidentPages-1 {
		t.Fatalf("%d faults, want %d", n, incidentPages-1)
	}
}

// Promise: without a drill the engine refuses to start with such a pool; told to
// lower its context, it refuses B in words, naming both lengths.
func TestWithoutTheDrillThePoolDecides(t *testing.T) {
	i := incident{}
	if _, err := disaggregated(t, i.setup(t)); !errors.Is(err, scheduler.ErrContextExceedsPool) {
		t.Fatalf("it starts: %v", err)
	}
	c, err := disaggregated(t, func(role scheduler.Role, p *process.Config) {
		i.setup(t)(role, p)
		p.Worker.LowerContext = true
	})
	if err != nil {
		t.Fatal(err)
	}
	b := c.complete("key-b", strings.Repeat("b", owedTokens), 8)
	if b.status != 400 || !strings.Contains(b.raw, "480") || !strings.Contains(b.raw, "256") {
		t.Fatalf("B is answered %d %s", b.status, b.raw)
	}
	c.rest()
	if got := c.findings(); slices.ContainsFunc(got, func(f finding.Finding) bool { return f.Kind != finding.CapacityInversion }) {
		t.Errorf("findings %+v", got)
	}
}
