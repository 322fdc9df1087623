package router

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kvwitness/kvwitness/engine/api"
)

// fake is an instance that says of itself what it is told to, and notes the rooms
// that come to it.
type fake struct {
	*httptest.Server
	info   api.Info
	status int
	ready  func(room int64) bool // a decode answers when prefill has done its part

	mu    sync.Mutex
	rooms []int64
	peers []string // whom each room meets
	lost  bool     // closes the connection instead of an answer
}

func newFake(t *testing.T, info api.Info) *fake {
	t.Helper()
	f := &fake{info: info, status: 200}
	f.Server = httptest.NewServer(http.HandlerFunc(f.serve))
	t.Cleanup(f.Close)
	return f
}

func (f *fake) serve(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/server_info" {
		f.set(func(f *fake) { api.WriteJSON(w, 200, f.info) })
		return
	}
	var b api.Body
	raw, _ := io.ReadAll(r.Body)
	_ = json.Unmarshal(raw, &b)
	for f.ready != nil && b.BootstrapRoom != 0 && !f.ready(int64(b.BootstrapRoom)) && r.Context().Err() == nil {
		time.Sleep(time.Millisecond)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rooms = append(f.rooms, int64(b.BootstrapRoom))
	f.peers = append(f.peers, fmt.Sprintf("%s:%d %s", b.BootstrapHost, b.BootstrapPort, b.BootstrapDecode))
	if f.lost {
		panic(http.ErrAbortHandler)
	}
	w.WriteHeader(f.status)
	_, _ = io.WriteString(w, f.info.Instance)
}

func (f *fake) set(change func(*fake)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(f)
}

func (f *fake) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.rooms)
}

// fleet is prefills of ranks each, and decodes, behind a router.
type fleet struct {
	t        *testing.T
	prefills []*fake
	decodes  []*fake
	r        *Router
	url      string
}

func newFleet(t *testing.T, prefills, ranks, decodes int) *fleet {
	t.Helper()
	f := &fleet{t: t}
	var cfg Config
	for i := range prefills * ranks {
		f.prefills = append(f.prefills, newFake(t, api.Info{
			Instance: fmt.Sprint("p", i), PPSize: ranks, PPRank: i % ranks, Bootstrap: fmt.Sprintf("10.0.0.%d:8998", i/ranks),
		}))
		cfg.Prefills = append(cfg.Prefills, f.prefills[i].URL)
	}
	for i := range decodes {
		f.decodes = append(f.decodes, newFake(t, api.Info{Instance: fmt.Sprint("d", i), Control: fmt.Sprintf("10.0.1.%d:7", i)}))
		f.decodes[i].ready = func(room int64) bool { return f.parts(room) >= ranks }
		cfg.Decodes = append(cfg.Decodes, f.decodes[i].URL)
	}
	var err error
	if f.r, err = New(cfg); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.r.Close)
	web := httptest.NewServer(f.r.Handler())
	t.Cleanup(web.Close)
	f.url = web.URL
	f.await("all are seen", func() bool {
		for _, i := range f.r.all() {
			if i.info.Load() == nil {
				return false
			}
		}
		return true
	})
	return f
}

// parts is how many ranks of prefill have had a room.
func (f *fleet) parts(room int64) (n int) {
	for _, p := range f.prefills {
		p.set(func(p *fake) {
			if slices.Contains(p.rooms, room) {
				n++
			}
		})
	}
	return n
}

func (f *fleet) await(what string, ok func() bool) {
	f.t.Helper()
	for end := time.Now().Add(20 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			f.t.Fatalf("not in time: %s", what)
		}
	}
}

func (f *fleet) ask() (int, string) {
	f.t.Helper()
	resp, err := http.Post(f.url+"/v1/completions", "application/json", strings.NewReader(`{"prompt":"x"}`))
	if err != nil {
		f.t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(raw)
}

// Promise: prefills and decodes take turns, and each prefill meets each decode; the
// two halves of a request have one room and name each other.
func TestEachPrefillMeetsEachDecode(t *testing.T) {
	f := newFleet(t, 2, 1, 2)
	for range 8 {
		if status, body := f.ask(); status != 200 || !strings.HasPrefix(body, "d") {
			t.Fatalf("%d %s", status, body)
		}
	}
	pairs, rooms := map[string]int{}, map[int64]int{}
	for _, i := range append(f.prefills, f.decodes...) {
		f.await("each has had its half", func() bool { return i.count() == 4 })
		i.set(func(i *fake) {
			for n, room := range i.rooms {
				rooms[room]++
				pairs[i.peers[n]]++
			}
		})
	}
	if len(pairs) != 4 || len(rooms) != 8 {
		t.Errorf("pairs %v, %d rooms", pairs, len(rooms))
	}
	for pair, n := range pairs {
		if n != 4 { // twice on each side
			t.Errorf("%s: %d", pair, n)
		}
	}
}

// Promise: a request goes to every rank of its prefill, and a prefill that lacks a
// rank gets none.
func TestEveryRankHasTheRequest(t *testing.T) {
	f := newFleet(t, 2, 2, 1)
	for range 4 {
		if status, body := f.ask(); status != 200 {
			t.Fatalf("%d %s", status, body)
		}
	}
	for _, i := range f.prefills {
		f.await("each rank has two", func() bool { return i.count() == 2 })
	}
	f.prefills[1].Close()
	f.await("the rank is missed", func() bool { return f.r.prefills[1].info.Load() == nil })
	for range 4 {
		if status, body := f.ask(); status != 200 {
			t.Fatalf("%d %s", status, body)
		}
	}
	f.await("the other prefill has them all", func() bool { return f.prefills[2].count() == 6 && f.prefills[3].count() == 6 })
	if n := f.prefills[0].count(); n != 2 {
		t.Errorf("%d requests to a prefill without its second rank", n)
	}
}

// Promise: while one of several is dead, or stops, and the router may not know it
// yet, the client sees nothing of it.
func TestOneOfSeveralFailsAndTheClientSeesNothing(t *testing.T) {
	for _, c := range []struct {
		name string
		of   func(*fleet) *fake
	}{{"prefill", func(f *fleet) *fake { return f.prefills[0] }}, {"decode", func(f *fleet) *fake { return f.decodes[0] }}} {
		for how, fail := range map[string]func(*fake){
			"is dead": func(i *fake) { i.Close() },
			"stops":   func(i *fake) { i.set(func(i *fake) { i.status = 503 }) },
		} {
			t.Run(c.name+" "+how, func(t *testing.T) {
				f := newFleet(t, 2, 1, 2)
				fail(c.of(f))
				for range 8 {
					if status, body := f.ask(); status != 200 {
						t.Errorf("%d %s", status, body)
					}
				}
			})
		}
	}
}

// Promise: a request that an instance dies with is a 502, and is not begun again
// elsewhere; the instance gets no more until it is seen to answer.
func TestARequestThatWasBegunIsNotBegunAgain(t *testing.T) {
	f := newFleet(t, 1, 1, 2)
	for _, d := range f.decodes {
		d.set(func(i *fake) { i.lost = true })
	}
	status, body := f.ask()
	if status != 502 || !strings.Contains(body, `"error"`) || f.decodes[0].count()+f.decodes[1].count() != 1 {
		t.Errorf("%d %s, begun %d times", status, body, f.decodes[0].count()+f.decodes[1].count())
	}
}

// Promise: where nobody is left the client is told at once, in OpenAI's form, after
// no more than the named number of attempts.
func TestNobodyIsLeft(t *testing.T) {
	f := newFleet(t, 5, 1, 1)
	for _, p := range f.prefills {
		p.set(func(i *fake) { i.status = 503 })
	}
	f.decodes[0].set(func(i *fake) { i.status = 503 })
	begin := time.Now()
	if status, _ := f.ask(); status != 503 || time.Since(begin) > 15*time.Second {
		t.Errorf("%d after %v", status, time.Since(begin))
	}
	// None, where the router had asked how it is in the meantime.
	if n := f.decodes[0].count(); n > maxAttempts {
		t.Errorf("%d attempts", n)
	}
	for _, i := range append(f.prefills, f.decodes...) {
		i.Close()
	}
	f.ask() // may have to find out
	f.await("the router knows", func() bool { status, _ := f.ask(); return status == 503 })
	status, body := f.ask()
	var e struct{ Error api.Error }
	if err := json.Unmarshal([]byte(body), &e); err != nil || status != 503 || e.Error.Type != "server_error" {
		t.Errorf("%d %s", status, body)
	}
}

// Promise: a decode that says to which prefills it is connected is given requests of
// those alone.
func TestADecodeGetsRequestsOfItsOwnPrefills(t *testing.T) {
	f := newFleet(t, 2, 1, 2)
	for i, d := range f.decodes {
		d.set(func(d *fake) { d.info.Prefills = []string{f.prefills[1-i].info.Bootstrap} })
	}
	f.await("the router has heard of it", func() bool {
		return f.r.decodes[0].info.Load().Prefills != nil && f.r.decodes[1].info.Load().Prefills != nil
	})
	for range 6 {
		f.ask()
	}
	for i, d := range f.decodes {
		d.set(func(d *fake) {
			for _, pair := range d.peers {
				if !strings.HasPrefix(pair, f.prefills[1-i].info.Bootstrap) {
					t.Errorf("decode %d is to meet %s", i, pair)
				}
			}
		})
		if d.count() == 0 {
			t.Errorf("decode %d got none", i)
		}
	}
}

// Promise: an abort reaches every instance that is up, and says what the worst of
// them says.
func TestAnAbortReachesEveryInstance(t *testing.T) {
	f := newFleet(t, 2, 1, 2)
	post := func(body string) int {
		resp, err := http.Post(f.url+"/abort_request", "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		return resp.StatusCode
	}
	if status := post(`{"rid":"x"}`); status != 200 {
		t.Errorf("%d", status)
	}
	for _, i := range append(f.prefills, f.decodes...) {
		if i.count() != 1 {
			t.Errorf("%s heard it %d times", i.info.Instance, i.count())
		}
	}
	f.decodes[1].set(func(i *fake) { i.status = 401 })
	if status := post(`{"abort_all":true}`); status != 401 {
		t.Errorf("%d, want 401", status)
	}
	if status := post(`{}`); status != 400 || f.decodes[0].count() != 2 {
		t.Errorf("%d, and %d aborts came through", status, f.decodes[0].count())
	}
}
