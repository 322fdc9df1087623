package web

import (
	"bufio"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/sidecar/finding"
)

func (s *site) live(t testing.TB) *http.Response {
	t.Helper()
	resp, err := http.Get(s.URL + "/api/v1/live")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	return resp
}

// event waits for an event that says so.
func event(t testing.TB, resp *http.Response, says string) {
	t.Helper()
	timer := time.AfterFunc(time.Minute, func() { resp.Body.Close() })
	defer timer.Stop()
	in := bufio.NewScanner(resp.Body)
	in.Buffer(nil, 8<<20)
	for in.Scan() {
		if strings.HasPrefix(in.Text(), "data: ") && strings.Contains(in.Text(), says) {
			return
		}
	}
	t.Fatalf("no event says %q: %v", says, in.Err())
}

func TestALiveViewIsSentWhatChanges(t *testing.T) {
	s := newSite(t, 64)
	v := s.live(t)
	event(t, v, `"free":64`)
	s.tell(t,
		`{"t":2,"inst":"d","src":"engine","ev":"request_admitted","req":"a","room":"7"}`,
		`{"t":3,"inst":"d","src":"engine","ev":"transfer_started","req":"a","room":"7","xfer":"x","side":"receiver","pool":"kv","pages":[[3,4]],"peer":"p"}`,
	)
	event(t, v, `"room":"7"`)
}

// Promise: so many views are live and no more; one that leaves makes room, and when
// nobody watches nothing looks.
func TestLiveViewsAreBounded(t *testing.T) {
	s := newSite(t, 64)
	var all []*http.Response
	for range MaxViews {
		all = append(all, s.live(t))
	}
	for range 20 {
		if resp := s.live(t); resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") == "" {
			t.Fatalf("one more is let in: %d", resp.StatusCode)
		}
	}
	all[0].Body.Close()
	waitFor(t, "a place", func() bool { return s.live(t).StatusCode == 200 })
}

func waitFor(t testing.TB, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !done(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s did not come about", what)
		}
	}
}

// Promise: views that take nothing are ended, and hold up no other.
func TestAViewThatReadsNothingIsEnded(t *testing.T) {
	s := newSite(t, 64)
	s.state = jsontext.Value(`"` + strings.Repeat("x", 512<<10) + `"`)
	for range MaxViews - 1 {
		c, err := net.Dial("tcp", s.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if err := c.(*net.TCPConn).SetReadBuffer(4096); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Write([]byte("GET /api/v1/live HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")); err != nil {
			t.Fatal(err)
		}
	}
	var v *http.Response
	waitFor(t, "a view beside them", func() bool { v = s.live(t); return v.StatusCode == 200 })
	event(t, v, `"free"`)
	var more []*http.Response
	waitFor(t, "the place of one", func() bool {
		resp := s.live(t)
		more = append(more, resp)
		return len(more) > 3 && resp.StatusCode == 200
	})
	event(t, v, `"free"`)
}

// Promise: a handoff is shown with what was reserved, written, seen and read, until its
// verdict, and memory of handoffs is bounded.
func TestAHandoffIsFollowedToItsVerdict(t *testing.T) {
	s := newSite(t, 64)
	s.tell(t,
		`{"t":2,"inst":"d","src":"engine","ev":"request_admitted","req":"a","room":"7"}`,
		`{"t":3,"inst":"d","src":"engine","ev":"transfer_started","req":"a","room":"7","xfer":"x","side":"receiver","pool":"kv","pages":[[3,4]],"peer":"p"}`,
		`{"t":4,"inst":"d","src":"tcp","ev":"bytes_moved","addr":1300,"bytes":150}`,
		`{"t":4,"inst":"d","src":"tcp","ev":"bytes_moved","addr":9000,"bytes":150}`,
		`{"t":5,"inst":"d","src":"engine","ev":"pages_written","req":"a","pool":"kv","pages":[[3,2]],"by":"transfer"}`,
		`{"t":6,"inst":"d","src":"engine","ev":"pages_read","req":"a","pool":"kv","pages":[[3,4]]}`,
	)
	all, before := s.flow.Recent(10)
	if len(all) != 1 || all[0].Reserved != 4 || all[0].Written != 2 || all[0].Seen != 1.5 || all[0].Read != 4 || all[0].Verdict != "" || all[0].Peer != "p" {
		t.Fatalf("%+v", all)
	}
	s.flow.Verdict(&finding.Verdict{Verdict: finding.Violated, Room: "7", Inst: "d", Why: "short_handoff"})
	all, after := s.flow.Recent(10)
	if len(all) != 1 || all[0].Verdict != "violated" || after == before {
		t.Errorf("%+v", all)
	}
	for n := range 3 * maxRunning {
		f := lifecycle.Fact{Inst: "d", Ev: lifecycle.TransferStarted, Side: lifecycle.Receiver, Room: "r" + strconv.Itoa(n), Req: strconv.Itoa(n), Pool: "kv", Pages: lifecycle.Runs{{First: 1, Count: 1}}}
		s.flow.Facts([]*lifecycle.Fact{&f})
	}
	if len(s.flow.running) != maxRunning || len(s.flow.ended) != maxEnded || len(s.flow.byReq) != maxRunning || len(s.flow.byPage) > maxTargets || len(s.flow.order) > 3*maxRunning {
		t.Errorf("%d run, %d ended, %d by request, %d by page, %d in order", len(s.flow.running), len(s.flow.ended), len(s.flow.byReq), len(s.flow.byPage), len(s.flow.order))
	}
}
