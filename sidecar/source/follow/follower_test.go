package follow

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/engine/lifecycle/stream"
	"github.com/kvwitness/kvwitness/engine/lifecycle/subscribe"
	"github.com/kvwitness/kvwitness/sidecar/source/engineinfo"
)

// shortDir is a folder whose sockets have names that are short enough.
func shortDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "kvf")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// live tells facts until one is heard: the subscription is then whole.
func (f *follower) live(e *engine) {
	e.t.Helper()
	before := f.heard.Load()
	waitFor(e.t, "a fact of "+e.inst, func() bool {
		e.tell(lifecycle.Fact{Ev: lifecycle.PeerGone, Peer: "p"})
		time.Sleep(2 * time.Millisecond)
		return f.heard.Load() > before && f.last.Load().Inst == e.inst
	})
}

func (f *follower) accounted(t testing.TB) Status {
	t.Helper()
	var s Status
	waitFor(t, "rest", func() bool { s = f.Status(); return s.Queue.Waiting == 0 && s.Socket.Bytes == 0 })
	lost := uint64(0)
	for _, n := range s.Lost {
		lost += n
	}
	if s.Seen != s.Handled+lost {
		t.Errorf("seen %d, handled %d, lost %d: %+v", s.Seen, s.Handled, lost, s.Lost)
	}
	return s
}

func TestAnEngineIsFollowedByItsURLAlone(t *testing.T) {
	e := newEngine(t, shortDir(t), "10.0.0.1:4711")
	f := follow(t, Config{Name: "a", URL: e.web.URL, Node: "n"})
	f.live(e)
	if last := f.last.Load(); last.Node != "n" || last.Peer != "p" {
		t.Errorf("%+v", last)
	}
	waitFor(t, "the models", func() bool { return f.Status().Poll.Effective.Has })
	s := f.accounted(t)
	if s.Poll.Pool.V != 680 || s.Poll.Context.V != 1048 || s.Poll.Effective.V != 512 || s.State != subscribe.Live || s.Epoch != 1 {
		t.Errorf("%+v", s)
	}
}

func TestAnEngineThatComesBackUnderAnotherNameIsFollowedThere(t *testing.T) {
	dir := shortDir(t)
	first, second := newEngine(t, dir, "i:1"), newEngine(t, dir, "i:2")
	f := follow(t, Config{Name: "a", URL: first.web.URL})
	f.live(first)
	first.say("instance", "i:2")
	first.say("kv_events", second.events)
	f.live(second)
	if s := f.accounted(t); s.Instance != "i:2" || s.Instances != 2 {
		t.Errorf("%+v", s)
	}
}

// A name for each answer would fill what the judge remembers of instances.
func TestAnEngineCannotCallItselfWithoutEnd(t *testing.T) {
	e := newEngine(t, shortDir(t), "i")
	f := follow(t, Config{Name: "a", URL: e.web.URL, Dir: shortDir(t)})
	e.say("kv_events", nil)
	n := 0
	waitFor(t, "a refusal", func() bool {
		e.say("instance", fmt.Sprint("x", n))
		n++
		return strings.Contains(f.Status().Refused, "restart the sidecar")
	})
	if s := f.Status(); s.Instances != MaxInstances {
		t.Errorf("%d instances", s.Instances)
	}
}

func TestAnEndpointThatIsNotTheInstancesOwnIsNotFollowed(t *testing.T) {
	dir := shortDir(t)
	e := newEngine(t, dir, "i")
	for _, endpoint := range []string{"tcp://127.0.0.1:1", "ipc:///run/docker.sock", "ipc://" + filepath.Join(dir, "other.events"), "inproc://x", "ipc://i.events/../x"} {
		e.say("kv_events", endpoint)
		f := follow(t, Config{Name: "a", URL: e.web.URL, Dir: dir})
		waitFor(t, "a refusal of "+endpoint, func() bool { return f.Status().Refused == errEndpoint.Error() })
		if s := f.Status(); s.Instance != "" {
			t.Errorf("%s is followed", endpoint)
		}
		f.stop()
	}
}

func TestAnInstanceThatIsAnothersIsNotFollowed(t *testing.T) {
	dir := shortDir(t)
	e := newEngine(t, dir, "i")
	f := follow(t, Config{Name: "a", URL: e.web.URL, Claim: func(subscribe.Config) bool { return false }})
	waitFor(t, "a refusal", func() bool { return strings.Contains(f.Status().Refused, "another name") })
}

func TestAnswersThatAreNoneAreCountedAndBounded(t *testing.T) {
	e := newEngine(t, shortDir(t), "i")
	f := follow(t, Config{Name: "a", URL: e.web.URL})
	f.live(e)
	for name, raw := range map[string]func(w http.ResponseWriter, r *http.Request){
		"no JSON": func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("{")) },
		"a text": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte(`"many"`))
		},
		"an error": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) },
		"elsewhere": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://127.0.0.1:1/", http.StatusFound)
		},
		"hangs up": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"never ends": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write(bytes.Repeat([]byte(" "), 2*engineinfo.MaxAnswer))
		},
	} {
		e.mu.Lock()
		e.raw = raw
		e.mu.Unlock()
		before := f.Status().Poll.Failed
		waitFor(t, name, func() bool {
			after := f.Status().Poll.Failed
			return after[engineinfo.ServerInfo] > before[engineinfo.ServerInfo]+1 && after[engineinfo.Models] > before[engineinfo.Models]+1
		})
	}
	if s := f.Status(); s.Poll.Pool.V != 680 || s.Instance != "i" {
		t.Errorf("what was known is gone: %+v", s.Poll)
	}
}

func TestWhatOneEngineNamesIsBounded(t *testing.T) {
	e := newEngine(t, shortDir(t), "i")
	f := follow(t, Config{Name: "a", URL: e.web.URL, Pages: 100})
	f.live(e)
	open := func(name string, pages uint32) {
		e.tell(lifecycle.Fact{Ev: lifecycle.PoolOpened, Pool: name, Spec: &lifecycle.PoolSpec{Pages: pages, PageTokens: 16}})
	}
	open("kv", 60)
	open("swa", 60) // too many pages
	for i := range MaxPools {
		open(fmt.Sprint("p", i), 1)
	}
	for i := range 2 * MaxPeers {
		e.tell(lifecycle.Fact{Ev: lifecycle.PeerGone, Peer: fmt.Sprint("peer", i)})
	}
	e.tell(lifecycle.Fact{Ev: lifecycle.PoolAudit, Pool: "kv", Audit: &lifecycle.Audit{Free: 50, Cached: 4, Held: 3, PendingDrain: 2}})
	waitFor(t, "the last one", func() bool { return f.Status().Said.Pools[KV].Audit.Has })
	s := f.accounted(t)
	if s.Lost[TooManyPages] == 0 || s.Lost[TooManyPages]+s.Lost[TooManyPools] != 1+1+23 || s.Lost[TooManyPeers] != MaxPeers+1 {
		t.Errorf("lost: %v", s.Lost)
	}
	if k := s.Said.Pools[KV]; k.Pages != 60 || k.Audit.V != (lifecycle.Audit{Free: 50, Cached: 4, Held: 3, PendingDrain: 2}) {
		t.Errorf("%+v", k)
	}
	if o := s.Said.Pools[OtherKind]; !o.Open || s.Said.Pools[SWA].Open {
		t.Errorf("%+v", s.Said.Pools)
	}
}

// Whatever comes in place of batches, nothing is lost without being counted.
func TestBadFramesAreCountedAndTheStreamGoesOn(t *testing.T) {
	e := newEngine(t, shortDir(t), "i")
	f := follow(t, Config{Name: "a", URL: e.web.URL})
	f.live(e)
	for i := range 100 {
		e.pub.Publish(stream.Topic("i"), binary.BigEndian.AppendUint64(nil, uint64(i)), bytes.Repeat([]byte{byte(i)}, i))
		e.pub.Publish(stream.Topic("i"), []byte("short"), nil)
	}
	waitFor(t, "all of them", func() bool { return f.Status().Lost[subscribe.BadBatch] == 200 })
	f.live(e)
	f.accounted(t)
}
