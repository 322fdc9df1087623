package web

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/kvwitness/kvwitness/engine/kvcache"
	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/engine/lifecycle/publish"
	"github.com/kvwitness/kvwitness/engine/scheduler"
	"github.com/kvwitness/kvwitness/engine/worker"
	"github.com/kvwitness/kvwitness/test/live"
)

var pictures = flag.String("pictures", "", "folder for pictures of the pages; empty: none are taken")

// drilled starts the engines of the incident, with the drill, and a sidecar.
func drilled(t *testing.T, args ...string) (*live.Exercise, *live.Cluster, *live.Sidecar) {
	t.Helper()
	for i := range live.Exercises {
		if e := &live.Exercises[i]; e.Drill == scheduler.RejectedHandoff {
			dir, err := live.ShortDir()
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = os.RemoveAll(dir) })
			c, err := e.Start(t.Context(), dir, true)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = c.Close() })
			s, err := live.StartSidecar(witness, c.Engines(), slices.Concat(live.Unhurried, []string{"--node", "node-a"}, args)...)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(s.Kill)
			return e, c, s
		}
	}
	t.Fatal("there is no such drill")
	return nil, nil, nil
}

// Promise: who watches sees the incident as it happens, comes with one click to its
// evidence, and can close it; by keyboard as well; nothing that a page does is an
// error or against its policy, and everybody can read it.
func TestAnIncidentIsSeenAsItHappensAndLeadsToItsEvidence(t *testing.T) {
	e, c, s := drilled(t, "--evidence", t.TempDir())
	b := newBrowser(t)
	url := s.Said["url"]
	b.do(chromedp.Navigate(url + "/"))
	b.until(`document.querySelectorAll("#pools canvas[data-drawn]").length === 4`)
	if _, err := e.Play(c, 1); err != nil {
		t.Fatal(err)
	}
	b.until(`document.querySelector("#open a") && document.querySelector("#handoffs .verdict-violated")`)
	if n := js[int](b, `performance.getEntriesByType("navigation").length + Number(document.body.dataset.looks > 1)`); n != 2 {
		t.Error("the page was loaded again, or was not live")
	}
	b.until(`[...document.querySelectorAll("#handoffs .bars .n")].some((e) => /[1-9].* reserved/.test(e.textContent))`)
	b.accessible("now")
	b.picture("now")
	b.do(chromedp.Focus("#pools canvas"), chromedp.KeyEvent(kb.ArrowRight), chromedp.KeyEvent(kb.ArrowRight))
	b.until(`document.querySelector("#pools .under").textContent.startsWith("page 1: ")`)
	b.do(chromedp.KeyEvent(kb.End))
	b.until(`document.querySelector("#pools .under").textContent.startsWith("page 32: ")`)
	b.clean()

	b.do(chromedp.Click("#open a"))
	b.until(`location.pathname.startsWith("/incident/") && document.readyState === "complete"`)
	b.until(`document.querySelector("canvas[data-drawn]")`)
	text := js[string](b, `document.querySelector("main").innerText`)
	for _, says := range []string{"Whose data was exposed", "stale_read", "short_handoff", "rejected_handoff", "Claimed", "Seen", "kvwitness findings show", "Runbook"} {
		if !strings.Contains(text, says) {
			t.Errorf("the incident does not say %q", says)
		}
	}
	if n := js[int](b, `document.querySelectorAll(".timeline tbody tr").length`); n < 20 {
		t.Errorf("a timeline of %d lines", n)
	}
	b.accessible("incident")
	b.picture("incident")
	b.do(chromedp.SendKeys("#by", "on-call"), chromedp.SendKeys("#why", "told the tenant"+kb.Enter))
	b.until(`document.body?.innerText?.includes("Closed by on-call")`)
	b.do(chromedp.Navigate(url + "/history"))
	b.until(`document.querySelectorAll("tbody tr").length > 0`)
	b.accessible("history")
	b.picture("history")
	b.clean()
}

// Promise: a million pages are drawn at once, and stay live.
func TestAMillionPagesAreDrawn(t *testing.T) {
	dir, err := live.ShortDir()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	p, err := publish.New(t.Context(), publish.Config{Identity: publish.Identity{Instance: "big", Epoch: 1, Now: worker.Now}, Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close(context.Background()) })
	pool, err := p.PoolEvents("kv", lifecycle.PoolSpec{Pages: 1_000_000, PageTokens: 16})
	if err != nil {
		t.Fatal(err)
	}
	s, err := live.StartSidecar(witness, "big=;instance=big", "--events-dir", dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Kill)
	use(p, pool)
	b := newBrowser(t)
	if err := live.Await("the pool is known", func() bool {
		body, err := s.Body("/api/v1/now")
		return err == nil && strings.Contains(string(body), `"pages":1000000`) && strings.Contains(string(body), `"reserved":`)
	}); err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	b.do(chromedp.Navigate(s.Said["url"] + "/"))
	b.until(`Number(document.querySelector("#pools canvas")?.dataset.drawn) > 10000`)
	t.Logf("the first picture of a million pages %s after it was asked for", time.Since(begun).Round(time.Millisecond))
	b.until(`Number(document.body.dataset.looks) >= 3`)
	b.picture("million")
	b.clean()
}

// use hands out pages of every state but those that only an observation makes.
func use(p *publish.Publisher, pool *publish.Pool) {
	for n := range 900 {
		at, req := kvcache.At{Now: worker.Now(), Step: uint64(n)}, kvcache.Req(n+1)
		run := []kvcache.Run{{First: kvcache.PageID(n * 1100), Count: 1000}}
		p.Admitted(at, scheduler.Info{Req: req, PromptTokens: 16_000}, 0)
		pool.Reserved(at, req, run)
		if n%7 != 1 {
			pool.Written(at, req, kvcache.ByForward, run, 0)
		}
		if n%3 == 0 {
			pool.Cached(at, req, kvcache.Domain(""), run, nil)
			pool.Released(at, req, run)
		}
		time.Sleep(time.Millisecond) // as an engine does, step by step
	}
}

// Promise: where a token is asked for, a browser gets nothing before it has shown it,
// and all after.
func TestABrowserShowsTheTokenOnce(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("0123456789abcdef\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := live.Start(witness, "watching", "sidecar", "--listen", "127.0.0.1:0", "--engines", "a=;instance=i", "--events-dir", t.TempDir(), "--token-file", file)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	b := newBrowser(t)
	b.do(chromedp.Navigate(p.Said["url"] + "/"))
	b.until(`location.pathname === "/login" && document.querySelector("#token")`)
	b.accessible("login")
	b.picture("login")
	b.do(chromedp.SendKeys("#token", "wrong"+kb.Enter))
	b.until(`document.body?.innerText?.includes("That is not the token.")`)
	b.do(chromedp.SendKeys("#token", "0123456789abcdef"+kb.Enter))
	b.until(`location.pathname === "/" && Number(document.body.dataset.looks) >= 1`)
	b.clean()
}
