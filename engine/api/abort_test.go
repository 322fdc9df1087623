package api

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/kvwitness/kvwitness/engine/worker"
)

// begin asks for an answer, which ends as the channel says.
func begin(t *testing.T, url, key, rid string, stream bool) <-chan string {
	end := make(chan string, 1)
	go func() {
		body := fmt.Sprintf(`{"prompt":"abcabcabc","max_tokens":100,"stream":%v,"rid":%q}`, stream, rid)
		status, _, raw := post(t, url+"/v1/completions", key, body)
		switch {
		case status == statusLeft && strings.Contains(raw, `"code":"aborted"`):
			end <- "aborted"
		case status == 200 && strings.Contains(raw, fmt.Sprintf(`"id":%q`, rid)):
			end <- "done"
		default:
			end <- fmt.Sprint(status, raw)
		}
	}()
	return end
}

// hold keeps the engine from doing anything until the function that it returns.
func hold(t *testing.T, w *worker.Worker) (release func()) {
	t.Helper()
	held, free := make(chan struct{}), make(chan struct{})
	go func() {
		_ = w.Inspect(context.Background(), func(worker.View) { close(held); <-free })
	}()
	<-held
	return func() { close(free) }
}

// Promise: an abort ends the requests that it names, by the id of their answer, of
// the tenant that asks: another's go on, whatever it is told to abort. A name that
// is not known is no error.
func TestAnAbortEndsWhatItNamesAndNobodyElses(t *testing.T) {
	keys, err := ParseKeys([]byte("alpha key-a\nbeta key-b\n"))
	if err != nil {
		t.Fatal(err)
	}
	url, s := served(t, func(_ *worker.Config, c *Config) { c.Keys = keys })
	for body, want := range map[string][3]string{ // of alpha's one and two, and beta's one
		`{"rid":"one"}`:                        {"aborted", "done", "done"},
		`{"abort_all":true}`:                   {"aborted", "aborted", "done"},
		`{"rid":"three"}`:                      {"done", "done", "done"},
		`{"rid":"two","abort_all":false}`:      {"done", "aborted", "done"},
		`{"rid":"nobody's","abort_all":true}`:  {"aborted", "aborted", "done"},
		`{"rid":"o"}`:                          {"done", "done", "done"}, // a part of a name is none
		`{"rid":"one","abort_message":"told"}`: {"aborted", "done", "done"},
	} {
		release := hold(t, s.worker)
		all := []<-chan string{begin(t, url, "key-a", "one", false), begin(t, url, "key-a", "two", true), begin(t, url, "key-b", "one", true)}
		s.await(t, len(all))
		status, _, raw := post(t, url+"/abort_request", "key-a", body)
		release()
		if status != 200 || raw != "" {
			t.Errorf("%s: %d %s", body, status, raw)
		}
		for i, end := range all {
			if got := <-end; got != want[i] {
				t.Errorf("%s: request %d is %s, want %s", body, i, got, want[i])
			}
		}
	}
	s.await(t, 0)
	if err := s.worker.Inspect(t.Context(), func(v worker.View) {
		if a := v.KV.Audit(); !v.Scheduler.Idle() || a.Held != 0 {
			t.Errorf("an aborted request holds pages: %+v", a)
		}
	}); err != nil {
		t.Fatal(err)
	}
}

// await waits until so many requests are being answered.
func (s *Server) await(t *testing.T, want int) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
		s.running.mu.Lock()
		n := len(s.running.by)
		s.running.mu.Unlock()
		if n == want {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%d requests are being answered, want %d", n, want)
		}
	}
}

// Promise: an abort that cannot be read, or comes without a key, aborts nothing and
// says so.
func TestAnAbortThatCannotBeReadIsRefused(t *testing.T) {
	keys, err := ParseKeys([]byte("alpha key-a\n"))
	if err != nil {
		t.Fatal(err)
	}
	url, s := served(t, func(_ *worker.Config, c *Config) { c.Keys = keys })
	release := hold(t, s.worker)
	one := begin(t, url, "key-a", "one", false)
	s.await(t, 1)
	for _, c := range []struct {
		key, body string
		want      int
	}{
		{"", `{"abort_all":true}`, 401},
		{"key-b", `{"rid":"one"}`, 401},
		{"key-a", `{}`, 400},
		{"key-a", `one`, 400},
		{"key-a", `{"rid":["one"]}`, 400},
		{"key-a", fmt.Sprintf(`{"rid":%q}`, strings.Repeat("x", MaxRIDBytes+1)), 400},
		{"key-a", strings.Repeat(" ", MaxBody) + `{}`, 413},
	} {
		if status, _, raw := post(t, url+"/abort_request", c.key, c.body); status != c.want {
			t.Errorf("%.40q: %d %.80s, want %d", c.body, status, raw, c.want)
		}
	}
	release()
	if got := <-one; got != "done" {
		t.Errorf("the request is %s", got)
	}
}
