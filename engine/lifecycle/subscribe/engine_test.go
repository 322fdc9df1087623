package subscribe

import (
	"bytes"
	"context"
	"encoding/binary"
	"sync"
	"testing"
	"time"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/engine/lifecycle/stream"
	"github.com/kvwitness/kvwitness/engine/zmtp"
)

// scripted is an engine that says what a test wants.
type scripted struct {
	t      testing.TB
	pub    *zmtp.Pub
	router *zmtp.Router
	cfg    Config

	mu     sync.Mutex
	answer func(r stream.Request) []stream.Message // nil: it says nothing
	asked  []stream.Request
}

func newScripted(t testing.TB) *scripted {
	t.Helper()
	dir := t.TempDir()
	e := &scripted{t: t, pub: zmtp.NewPub(zmtp.Config{}), router: zmtp.NewRouter(zmtp.Config{SendBytes: 64 << 20})}
	e.cfg = Config{
		Instance: "e", Node: "n1", Dir: dir, AnswerTimeout: 300 * time.Millisecond, StreamTimeout: 300 * time.Millisecond,
		RetryMin: time.Millisecond, RetryMax: 5 * time.Millisecond,
		Socket: zmtp.Config{Reconnect: zmtp.Backoff{Min: time.Millisecond, Max: 5 * time.Millisecond}},
	}
	events, replay, err := stream.Endpoints(dir, "e")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.pub.Bind(t.Context(), events); err != nil {
		t.Fatal(err)
	}
	if _, err := e.router.Bind(t.Context(), replay); err != nil {
		t.Fatal(err)
	}
	served := make(chan struct{})
	go func() { defer close(served); e.serve() }()
	t.Cleanup(func() {
		_ = e.pub.Close()
		_ = e.router.Close()
		<-served
	})
	e.answers(func(r stream.Request) []stream.Message {
		if r.Snapshot {
			return []stream.Message{message(0, marker(1, 0))}
		}
		return nil
	})
	return e
}

func (e *scripted) answers(answer func(r stream.Request) []stream.Message) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.answer = answer
}

func (e *scripted) serve() {
	for {
		id, frames, err := e.router.Recv(context.Background())
		if err != nil {
			return
		}
		r, err := stream.ParseRequest(frames)
		if err != nil {
			e.t.Error(err)
		}
		e.mu.Lock()
		answer := e.answer
		e.asked = append(e.asked, r)
		e.mu.Unlock()
		if answer == nil {
			continue
		}
		for _, m := range append(answer(r), stream.Message{Seq: stream.End}) {
			_ = e.router.Send(id, nil, binary.BigEndian.AppendUint64(nil, m.Seq), m.Payload)
		}
	}
}

func (e *scripted) say(m stream.Message) { e.sayAs(stream.Topic("e"), m) }

func (e *scripted) sayAs(topic []byte, m stream.Message) {
	e.pub.Publish(topic, binary.BigEndian.AppendUint64(nil, m.Seq), m.Payload)
}

// follow runs a subscription until the test ends, and returns what it hands on.
func (e *scripted) follow() (*Subscriber, func() []*lifecycle.Fact) {
	s, err := New(e.cfg)
	if err != nil {
		e.t.Fatal(err)
	}
	var mu sync.Mutex
	var heard []*lifecycle.Fact
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- s.Run(ctx, func(f *lifecycle.Fact) {
			mu.Lock()
			defer mu.Unlock()
			heard = append(heard, f)
		})
	}()
	e.t.Cleanup(func() {
		cancel()
		if err := <-ended; err != context.Canceled {
			e.t.Errorf("the subscription ended: %v", err)
		}
	})
	waitFor(e.t, "the subscription", func() bool {
		peers := e.pub.Peers()
		return len(peers) > 0 && peers[0].Subscriptions > 0
	})
	return s, func() []*lifecycle.Fact {
		mu.Lock()
		defer mu.Unlock()
		return append([]*lifecycle.Fact(nil), heard...)
	}
}

func waitFor(t testing.TB, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !done(); {
		if time.Now().After(end) {
			t.Fatalf("%s did not come about", what)
		}
		time.Sleep(time.Millisecond)
	}
}

func message(seq uint64, facts ...*lifecycle.Fact) stream.Message {
	var b stream.Builder
	for _, f := range facts {
		b.Add(f)
	}
	return stream.Message{Seq: seq, Payload: bytes.Clone(b.Finish(1, lifecycle.Opt[int64]{}))}
}

// claim is a fact that an engine may say.
func claim(epoch, seq uint64) *lifecycle.Fact {
	return &lifecycle.Fact{
		T: int64(100 + seq), Node: "of its own choice", Inst: "e", Src: lifecycle.Engine, Ev: lifecycle.PeerGone, Peer: "p",
		Epoch: lifecycle.Some(epoch), Seq: lifecycle.Some(seq),
	}
}

// marker begins a snapshot after the fact of that number.
func marker(epoch, last uint64) *lifecycle.Fact {
	f := claim(epoch, last)
	f.Ev, f.Of = lifecycle.Watermark, lifecycle.Engine
	return f
}

// held is a fact of a snapshot.
func held(epoch uint64, at int64, ev lifecycle.Ev) *lifecycle.Fact {
	f := &lifecycle.Fact{T: at, Inst: "e", Src: lifecycle.Engine, Ev: ev, Epoch: lifecycle.Some(epoch), Req: "1", Pool: "kv"}
	if ev == lifecycle.PoolOpened {
		f.Spec = &lifecycle.PoolSpec{Pages: 8, PageTokens: 4, Since: lifecycle.SinceAttach}
	}
	return f
}

// counted says that every fact that came is accounted for.
func counted(t testing.TB, s *Subscriber) Stats {
	t.Helper()
	st := s.Stats()
	sum := st.Handed + st.Twice
	for l, n := range st.Lost {
		if Loss(l) != GapNotKept && Loss(l) != EngineQueue { // these never came
			sum += n
		}
	}
	if sum != st.Facts {
		t.Errorf("of %d facts %d are accounted for: %+v", st.Facts, sum, st)
	}
	return st
}
