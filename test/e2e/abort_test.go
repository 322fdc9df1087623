package e2e

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/engine/model"
	"github.com/kvwitness/kvwitness/engine/process"
	"github.com/kvwitness/kvwitness/engine/scheduler"
	"github.com/kvwitness/kvwitness/engine/worker"
)

// abort asks engines to abort a request.
func (c *cluster) abort(rid string, urls ...string) {
	c.t.Helper()
	for _, url := range urls {
		resp, err := http.Post(url+"/abort_request", "application/json", strings.NewReader(`{"rid":"`+rid+`"}`))
		if err != nil {
			c.t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != 200 {
			c.t.Fatalf("abort: %s", resp.Status)
		}
	}
}

// Promise: an abort in the middle of a transfer answers at once and does not tear
// it: decode keeps the pages back while the bytes are under way, all of them land,
// the connection stands, and then every page is given back once. Whoever asks next
// is answered rightly, and nobody is accused.
func TestAnAbortDoesNotTearARunningTransfer(t *testing.T) {
	for name, at := range map[string]func(*cluster) []string{
		"router":  func(c *cluster) []string { return []string{c.url} },
		"prefill": func(c *cluster) []string { return []string{c.prefill.URL()} },
		"decode":  func(c *cluster) []string { return []string{c.decode.URL()} },
	} {
		t.Run(name, func(t *testing.T) {
			// Where drills are allowed, memory has a lock, by which the test holds the
			// bytes up.
			c, err := disaggregated(t, func(_ scheduler.Role, p *process.Config) { p.Worker.AllowRequestDrill = true })
			if err != nil {
				t.Fatal(err)
			}
			const pages = 3
			c.decode.Worker.Memory().Lock()
			unlock := func() { c.decode.Worker.Memory().Unlock() }
			body, _ := json.Marshal(map[string]any{"prompt": promptA[:pages*pageTokens], "max_tokens": 20, "rid": "mine"})
			done := make(chan answer, 1)
			go func() { a, _ := ask(t.Context(), c.url+"/v1/completions", "", body); done <- a }()
			c.await("the transfer runs", func() bool {
				return c.look(c.prefill, func(v worker.View) bool { return v.KV.OpenTransfers() > 0 })
			})
			c.abort("mine", at(c)...)
			select {
			case a := <-done:
				if a.status == 200 {
					t.Errorf("answered %d %s", a.status, a.raw)
				}
			case <-time.After(patience):
				unlock()
				t.Fatal("the abort waits for the transfer")
			}
			if !c.look(c.decode, func(v worker.View) bool { return v.KV.Audit().PendingDrain == pages }) {
				t.Error("decode does not keep the pages back that are being written")
			}
			unlock()
			c.rest()
			var written []bool // as it is before anybody else comes
			for p := range base(scheduler.Decode).Worker.Pages {
				written = append(written, c.decode.Worker.Memory().Pages.Written(0, p) != 0)
			}
			if a := c.complete("", promptB, 20); a.text != string(model.Expect([]byte(promptB), 20)) {
				t.Errorf("the next is answered %d %s", a.status, a.raw)
			}
			c.rest()
			named, end := 0, worker.Now()
			for _, f := range c.facts() {
				switch {
				case f.Ev == lifecycle.PeerGone && f.T < end: // the end of the test cuts all
					t.Errorf("the connection was cut: %+v", f)
				case f.Ev == lifecycle.TransferStarted && f.Side == lifecycle.Receiver && named == 0:
					for _, run := range f.Pages {
						for p := run.First; p < run.End(); p++ {
							if named++; !written[p] {
								t.Errorf("page %d was named and never written", p)
							}
						}
					}
				}
			}
			if named != pages {
				t.Errorf("%d pages were named, want %d", named, pages)
			}
			c.expectFindings()
		})
	}
}
