package follow

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/engine/lifecycle/stream"
	"github.com/kvwitness/kvwitness/engine/zmtp"
	"github.com/kvwitness/kvwitness/sidecar/intake"
	"github.com/kvwitness/kvwitness/test/attach"
)

// engine is one that says what a test wants.
type engine struct {
	t      testing.TB
	inst   string
	events string
	pub    *zmtp.Pub
	seq    uint64 // of the next batch
	fact   uint64 // of the next fact

	mu   sync.Mutex
	info map[string]any
	raw  func(w http.ResponseWriter, r *http.Request) // instead of an answer
	web  *httptest.Server
}

func start() int64 { return time.Now().UnixNano() }

func newEngine(t testing.TB, dir, inst string) *engine {
	t.Helper()
	e := &engine{t: t, inst: inst, pub: zmtp.NewPub(zmtp.Config{})}
	events, replay, err := stream.Endpoints(dir, inst)
	if err != nil {
		t.Fatal(err)
	}
	router := zmtp.NewRouter(zmtp.Config{})
	for endpoint, bind := range map[string]func(context.Context, string) (string, error){events: e.pub.Bind, replay: router.Bind} {
		if _, err := bind(t.Context(), endpoint); err != nil {
			t.Fatal(err)
		}
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		for {
			id, _, err := router.Recv(context.Background())
			if err != nil {
				return
			}
			for _, m := range []stream.Message{e.mark(), {Seq: stream.End}} {
				_ = router.Send(id, nil, binary.BigEndian.AppendUint64(nil, m.Seq), m.Payload)
			}
		}
	}()
	e.events = events
	e.info = map[string]any{"instance": inst, "kv_events": events, "max_total_num_tokens": 680, "context_length": 1048}
	e.web = httptest.NewServer(http.HandlerFunc(e.answer))
	t.Cleanup(func() {
		e.web.Close()
		_ = e.pub.Close()
		_ = router.Close()
		<-served
	})
	return e
}

func (e *engine) answer(w http.ResponseWriter, r *http.Request) {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.raw != nil:
		e.raw(w, r)
	case r.URL.Path == "/server_info":
		_ = json.NewEncoder(w).Encode(e.info)
	case r.URL.Path == "/v1/models":
		_, _ = w.Write([]byte(`{"data":[{"id":"m","max_model_len":512}]}`))
	}
}

func (e *engine) say(key string, value any) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.info[key] = value
}

// mark is a snapshot of nothing, as of now.
func (e *engine) mark() stream.Message {
	e.mu.Lock()
	defer e.mu.Unlock()
	f := &lifecycle.Fact{
		T: start(), Inst: e.inst, Src: lifecycle.Engine, Ev: lifecycle.Watermark, Of: lifecycle.Engine, Epoch: lifecycle.Some(uint64(1)),
	}
	if e.fact > 0 {
		f.Seq = lifecycle.Some(e.fact - 1)
	}
	m := e.message(f)
	m.Seq = e.seq
	return m
}

func (e *engine) message(facts ...*lifecycle.Fact) stream.Message {
	var b stream.Builder
	for _, f := range facts {
		b.Add(f)
	}
	return stream.Message{Payload: bytes.Clone(b.Finish(1, lifecycle.Opt[int64]{}))}
}

// tell publishes a batch of one fact.
func (e *engine) tell(f lifecycle.Fact) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.seq++
	f.T, f.Inst, f.Src, f.Epoch = start(), e.inst, lifecycle.Engine, lifecycle.Some(uint64(1))
	f.Seq = lifecycle.Some(e.fact)
	e.fact++
	e.pub.Publish(stream.Topic(e.inst), binary.BigEndian.AppendUint64(nil, e.seq), e.message(&f).Payload)
}

// follower runs until the test ends, or stop is called; heard are the facts that
// came out of the intake.
type follower struct {
	*Follower
	heard atomic.Uint64
	last  atomic.Pointer[lifecycle.Fact]
	stop  func()

	mu    sync.Mutex
	facts []*lifecycle.Fact
}

func (f *follower) all() []*lifecycle.Fact {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.facts)
}

// handler answers as the engine of the moment does.
type handler func() *attach.Answers

func (h handler) ServeHTTP(w http.ResponseWriter, r *http.Request) { h().ServeHTTP(w, r) }

func follow(t testing.TB, cfg Config) *follower {
	t.Helper()
	in := intake.New(intake.Config{Now: start})
	cfg.Log = slog.New(slog.DiscardHandler)
	cfg.Poll, cfg.SnapshotBytes, cfg.Now = 20*time.Millisecond, 1<<20, start
	if cfg.Pages == 0 {
		cfg.Pages = 1000
	}
	f, err := New(cfg, in)
	if err != nil {
		t.Fatal(err)
	}
	fl := &follower{Follower: f}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { f.Run(ctx) })
	wg.Go(func() {
		for ctx.Err() == nil {
			in.Take(func(f *lifecycle.Fact) {
				fl.mu.Lock()
				fl.facts = append(fl.facts, f)
				fl.mu.Unlock()
				fl.last.Store(f)
				fl.heard.Add(1)
			})
			time.Sleep(time.Millisecond)
		}
	})
	fl.stop = func() {
		cancel()
		wg.Wait()
	}
	t.Cleanup(fl.stop)
	return fl
}

func waitFor(t testing.TB, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !done(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s did not come about", what)
		}
	}
}
