package web

import (
	"context"
	"encoding/json"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/kvwitness/kvwitness/test/chromium"
	"github.com/kvwitness/kvwitness/test/live"
)

// patience is how long anything in the browser may take.
const patience = 60 * time.Second

var needs = sync.OnceValues(func() (chromium.Needs, error) { return chromium.See("../..") })

// The command as it is shipped, built once.
var witness string

func TestMain(m *testing.M) { os.Exit(withCommand(m)) }

func withCommand(m *testing.M) int {
	dir, err := os.MkdirTemp("", "kvw-web")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	if witness, err = live.Build(context.Background(), "../..", dir, "kvwitness"); err != nil {
		panic(err)
	}
	return m.Run()
}

// browser is one tab, and what went wrong in it.
type browser struct {
	t   *testing.T
	ctx context.Context
	axe string

	mu       sync.Mutex
	problems []string
}

func newBrowser(t *testing.T) *browser {
	t.Helper()
	need, err := needs()
	if err != nil {
		t.Fatal(err)
	}
	axe, err := os.ReadFile(need.Axe)
	if err != nil {
		t.Fatal(err)
	}
	tab, end, err := chromium.Open(need.Browser, t.TempDir(), 1280, 900)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(end)
	b := &browser{t: t, ctx: tab, axe: string(axe)}
	go b.hear(chromedp.Console(tab))
	return b
}

// hear keeps what pages complain of.
func (b *browser) hear(messages iter.Seq2[chromedp.ConsoleMessage, error]) {
	for m, err := range messages {
		if err != nil {
			return // the browser is closed
		}
		if m.IsException() || m.Type == "error" || m.Type == "warning" || m.Type == "assert" || m.Source == "security" || m.Source == "violation" {
			b.mu.Lock()
			b.problems = append(b.problems, m.Source+" "+m.String()+" "+m.URL)
			b.mu.Unlock()
		}
	}
}

// clean holds that nothing went wrong until now.
func (b *browser) clean() {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, p := range b.problems {
		b.t.Error(p)
	}
	b.problems = nil
}

func (b *browser) do(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	if err := chromedp.Do(ctx, actions...); err != nil {
		b.t.Fatal(err)
	}
}

func run[T any](b *browser, action chromedp.Action[T]) T {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	value, err := chromedp.Run(ctx, action)
	if err != nil {
		b.t.Fatal(err)
	}
	return value
}

// js is the value of an expression.
func js[T any](b *browser, expression string) T {
	b.t.Helper()
	return run(b, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
}

// until waits for an expression to be true.
func (b *browser) until(expression string) {
	b.t.Helper()
	for end := time.Now().Add(patience); !js[bool](b, "(() => { try { return Boolean("+expression+") } catch { return false } })()"); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			b.t.Fatalf("not so: %s\n%s", expression, js[string](b, "document.body?.innerText?.slice(0, 3000)"))
		}
	}
}

// scheme is light or dark.
func (b *browser) scheme(name string) {
	b.t.Helper()
	features := []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: name}}
	if _, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: features}); err != nil {
		b.t.Fatal(err)
	}
}

// accessible holds that axe-core finds nothing serious on the page, in light and dark.
func (b *browser) accessible(page string) {
	b.t.Helper()
	_ = js[int](b, b.axe+"\n;0")
	for _, name := range []string{"light", "dark"} {
		b.scheme(name)
		said := js[string](b, `axe.run(document, {resultTypes: ["violations"]}).then((r) => JSON.stringify(r.violations.map((v) =>
			({id: v.id, impact: v.impact, nodes: v.nodes.slice(0, 3).map((n) => n.html + " " + n.failureSummary)}))))`)
		var found []struct {
			ID, Impact string
			Nodes      []string
		}
		if err := json.Unmarshal([]byte(said), &found); err != nil {
			b.t.Fatal(err)
		}
		for _, v := range found {
			b.t.Errorf("%s, %s: %s (%s): %s", page, name, v.ID, v.Impact, strings.Join(v.Nodes, "\n"))
		}
	}
	b.scheme("light")
}

// picture writes what the tab shows to a file, if pictures are asked for.
func (b *browser) picture(name string) {
	b.t.Helper()
	if *pictures == "" {
		return
	}
	png := run(b, chromedp.CaptureScreenshot())
	if err := os.WriteFile(filepath.Join(*pictures, name+".png"), png, 0o600); err != nil {
		b.t.Fatal(err)
	}
}
