package web

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/sidecar/evidence"
	"github.com/kvwitness/kvwitness/sidecar/finding"
	"github.com/kvwitness/kvwitness/sidecar/ledger"
)

// site is a handler before a ledger with one pool.
type site struct {
	*httptest.Server
	store  *evidence.Store
	ledger *ledger.Ledger
	flow   *Flow
	closed int
	mu     sync.Mutex // of the ledger
	clock  int64
	state  jsontext.Value
}

func newSite(t testing.TB, pages int) *site {
	t.Helper()
	store, err := evidence.Open(evidence.Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	s := &site{store: store, ledger: ledger.New(ledger.Config{}), flow: NewFlow(), state: jsontext.Value(`{"engines":[],"verdicts":{"clean":1}}`)}
	s.tell(t, fmt.Sprintf(`{"t":1,"inst":"d","src":"engine","ev":"pool_opened","pool":"kv","pages":%d,"page_tokens":16,"regions":[{"base":1000,"stride":100,"bytes":100}]}`, pages))
	s.Server = httptest.NewUnstartedServer(Handler(Source{
		Node: "n", State: func() jsontext.Value { return s.state }, Store: store, Flow: s.flow,
		Judge: func(_ context.Context, question func(*ledger.Ledger)) error {
			s.mu.Lock()
			defer s.mu.Unlock()
			question(s.ledger)
			return nil
		},
		Closed: func() { s.closed++ },
	}))
	s.Config.ConnState = func(c net.Conn, state http.ConnState) {
		if state == http.StateNew {
			_ = c.(*net.TCPConn).SetWriteBuffer(16 << 10) // so that who reads nothing is noticed
		}
	}
	s.Start()
	t.Cleanup(s.Close)
	return s
}

func (s *site) tell(t testing.TB, lines ...string) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	dec := lifecycle.NewJSONDecoder()
	for _, line := range lines {
		f, err := dec.Decode([]byte(line))
		if err != nil {
			t.Fatal(err)
		}
		s.clock++
		f.T = s.clock
		s.flow.Facts([]*lifecycle.Fact{f})
		s.ledger.Step(f)
	}
	s.clock += 1e9
	s.ledger.Advance(s.clock)
}

func (s *site) get(t testing.TB, path string) (int, string, http.Header) {
	t.Helper()
	resp, err := http.Get(s.URL + path)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text), resp.Header
}

// nasty is what an engine may call its things.
const nasty = `<script>alert(1)</script>"'>&`

// hostile puts an incident whose every name is nasty.
func (s *site) hostile(t testing.TB) string {
	t.Helper()
	f := finding.Finding{
		Kind: finding.StaleRead, T: 5, Node: nasty, Inst: nasty, Req: nasty, Room: nasty, Pool: nasty, Pages: finding.Pages{{First: 1, Count: 2}},
		Claim: nasty, Observation: nasty, Exposed: []finding.Party{{Inst: nasty, Req: nasty, Domain: lifecycle.Some(nasty)}},
	}
	said, err := json.Marshal(&f)
	if err != nil {
		t.Fatal(err)
	}
	fact := lifecycle.Fact{T: 4, Inst: nasty, Src: lifecycle.Engine, Ev: lifecycle.RequestRejected, Req: nasty, Reason: nasty}
	seen := lifecycle.Fact{T: 6, Inst: nasty, Src: lifecycle.TCP, Ev: lifecycle.BytesMoved, Addr: 4096, Bytes: 7, From: nasty}
	b := evidence.Body{
		Part: "opened", Findings: []jsontext.Value{said}, Facts: []jsontext.Value{fact.AppendJSON(nil), seen.AppendJSON(nil)},
		Map: &evidence.Map{Inst: nasty, Pool: nasty, Pages: 20_000, Runs: [][2]int{{0, 10_000}, {7, 1}, {4, 9_999}}, Holders: []evidence.Page{{Page: 1, Holder: &f.Exposed[0]}}},
	}
	text, err := json.Marshal(&b)
	if err != nil {
		t.Fatal(err)
	}
	i := evidence.Incident{ID: "abcdef012345", Kind: f.Kind, Kinds: []finding.Kind{f.Kind}, Name: nasty, Inst: nasty, Open: true, Wakes: true}
	if _, err := s.store.Put(i, text); err != nil {
		t.Fatal(err)
	}
	return i.ID
}

// Promise: what an engine calls its things is shown and never run; and a page lets in
// nothing but what this server has.
func TestWhateverThingsAreCalledPagesAreSafe(t *testing.T) {
	s := newSite(t, 8)
	id := s.hostile(t)
	for _, path := range []string{"/", "/history", "/history?kind=" + "%3Cscript%3Ealert(1)%3C/script%3E", "/incident/" + id, "/incident/%3Cscript%3Ealert(1)%3C%2Fscript%3E", "/login?wrong"} {
		_, text, h := s.get(t, path)
		if strings.Contains(text, "<script>alert") || !strings.Contains(text, "</html>") {
			t.Errorf("%s: %s", path, text)
		}
		if h.Get("Content-Security-Policy") != policy || strings.Contains(policy, "unsafe") || h.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: %v", path, h)
		}
		if strings.Contains(text, " style=") || strings.Contains(text, " onclick=") {
			t.Errorf("%s has what its policy forbids", path)
		}
	}
	_, text, _ := s.get(t, "/incident/"+id)
	for _, says := range []string{"stale_read", "bytes moved from", "7 bytes at 0x1000", "request rejected of request", `data-marks="1-2"`, "20000 pages, 2 in a cell", "A5000cQ4999"} {
		if !strings.Contains(text, says) {
			t.Errorf("the incident does not say %q:\n%s", says, text)
		}
	}
}

func TestTheAPITellsAllOfAnIncident(t *testing.T) {
	s := newSite(t, 8)
	id := s.hostile(t)
	for path, want := range map[string]int{
		"/api/v1/incidents": 200, "/api/v1/incidents/" + id: 200, "/api/v1/incidents/" + id + "/export": 200, "/api/v1/incidents/none": 404,
		"/api/v1/incidents/none/export": 404, "/incident/none": 404, "/nothing": 404, "/assets/nothing": 404, "/assets/style.css": 200,
		"/assets/../web.go": 404, "/assets/%2e%2e/web.go": 404, "/incident/..%2f..%2fetc": 404, "/pages/now.html": 404, "/api/v1/now": 200,
	} {
		if status, text, _ := s.get(t, path); status != want {
			t.Errorf("%s: %d %.100s", path, status, text)
		}
	}
	_, text, _ := s.get(t, "/api/v1/incidents/"+id+"/export")
	if v, err := evidence.VerifyFile(strings.NewReader(text), ""); err != nil || v.Incident != id {
		t.Errorf("%+v, %v", v, err)
	}
}

func TestADisclosureIsClosedByAPersonAndByNoOtherSite(t *testing.T) {
	s := newSite(t, 8)
	id := s.hostile(t)
	post := func(path, body string, header ...string) int {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		for n := 0; n < len(header); n += 2 {
			req.Header.Set(header[n], header[n+1])
		}
		resp, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		return resp.StatusCode
	}
	for _, c := range []struct {
		path, body string
		header     []string
		want       int
	}{
		{"/incident/" + id + "/close", "by=me&why=done", []string{"Sec-Fetch-Site", "cross-site"}, 403},
		{"/incident/" + id + "/close", "by=me&why=done", []string{"Origin", "http://evil.example"}, 403},
		{"/incident/" + id + "/close", "by=me", nil, 400},
		{"/incident/" + id + "/close", "by=me&why=" + strings.Repeat("x", 1<<20), nil, 400},
		{"/api/v1/incidents/" + id + "/close", "{", nil, 400},
		{"/api/v1/incidents/none/close", `{"by":"me","why":"done"}`, nil, 404},
	} {
		if status := post(c.path, c.body, c.header...); status != c.want {
			t.Errorf("%s %.30s %v: %d, want %d", c.path, c.body, c.header, status, c.want)
		}
	}
	if s.closed != 0 || s.store.Stats().Open != 1 {
		t.Fatalf("%d closed, %+v", s.closed, s.store.Stats())
	}
	if status := post("/incident/"+id+"/close", "by=me&why=told+the+tenant"); status != http.StatusSeeOther || s.closed != 1 || s.store.Stats().Open != 0 {
		t.Errorf("%d, %d closed, %+v", status, s.closed, s.store.Stats())
	}
	if _, text, _ := s.get(t, "/incident/"+id); !strings.Contains(text, "told the tenant") || strings.Contains(text, "<form") {
		t.Error("that it is closed is not shown")
	}
}

// Promise: a map has a bounded number of cells, whatever the pool, and what was read
// unwritten shows.
func TestAMapIsBoundedAndShowsWhatMatters(t *testing.T) {
	const pages = 1_000_000
	s := newSite(t, pages)
	s.tell(t,
		`{"t":2,"inst":"d","src":"engine","ev":"request_admitted","req":"a"}`,
		`{"t":3,"inst":"d","src":"engine","ev":"pages_reserved","req":"a","pool":"kv","pages":[[0,500000],[777777,1]]}`,
		`{"t":4,"inst":"d","src":"engine","ev":"pages_written","req":"a","pool":"kv","pages":[[0,500000]],"by":"forward"}`,
		`{"t":5,"inst":"d","src":"engine","ev":"pages_read","req":"a","pool":"kv","pages":[[777777,1]]}`,
	)
	begun := time.Now()
	_, text, _ := s.get(t, "/api/v1/now")
	t.Logf("%d pages in %s, %d bytes", pages, time.Since(begun).Round(time.Millisecond), len(text))
	var now Now
	if err := json.Unmarshal([]byte(text), &now); err != nil || len(now.Pools) != 1 {
		t.Fatalf("%v: %s", err, text)
	}
	p := now.Pools[0]
	if p.Per != 62 || p.Counts["written"] != 500_000 || p.Counts["read unwritten"] != 1 || p.Counts["free"] != 499_999 || len(text) > 64<<10 {
		t.Errorf("%+v", p)
	}
	if n := strings.Count(p.Cells, "c") + strings.Count(p.Cells, "d") + strings.Count(p.Cells, "e") + strings.Count(p.Cells, "f"); n != 1 {
		t.Errorf("the page that was read unwritten is in %d cells: %s", n, p.Cells)
	}
}
