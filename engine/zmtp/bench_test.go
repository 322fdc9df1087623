package zmtp

import (
	"context"
	"testing"
	"time"
)

// publisherWithOne returns a publisher with one subscriber that reads.
func publisherWithOne(tb testing.TB) *Pub {
	tb.Helper()
	pub := NewPub(Config{SendBytes: 64 << 20, SendMessages: 1 << 20})
	at, err := pub.Bind(context.Background(), "tcp://127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	sub := NewSub(Config{})
	if err := sub.Subscribe([]byte("kvw1@")); err != nil {
		tb.Fatal(err)
	}
	if err := sub.Connect(at); err != nil {
		tb.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			if _, err := sub.Recv(ctx); err != nil {
				return
			}
		}
	}()
	tb.Cleanup(func() {
		cancel()
		<-done
		_ = sub.Close()
		_ = pub.Close()
	})
	for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		if p := pub.Peers(); len(p) == 1 && p[0].Subscriptions == 1 {
			return pub
		}
		if time.Now().After(end) {
			tb.Fatal("nobody subscribed")
		}
	}
}

func BenchmarkPublishToOneSubscriber(b *testing.B) {
	pub := publisherWithOne(b)
	topic, seq, body := []byte("kvw1@decode-0"), make([]byte, 8), make([]byte, 120)
	b.ReportAllocs()
	b.ResetTimer()
	dropped := 0
	for range b.N {
		_, d := pub.Publish(topic, seq, body)
		dropped += d
	}
	b.ReportMetric(float64(dropped)/float64(b.N), "dropped/op")
}

func BenchmarkDecodeThreeFrames(b *testing.B) {
	stream := AppendMessage(nil, []byte("kvw1@decode-0"), make([]byte, 8), make([]byte, 120))
	d := NewDecoder(DecoderConfig{Joined: true})
	b.ReportAllocs()
	b.SetBytes(int64(len(stream)))
	for range b.N {
		if _, ev, err := d.Next(stream); err != nil || ev.Kind != MessageEvent {
			b.Fatal(ev.Kind, err)
		}
	}
}

// The queue is made to its working size first; then publishing allocates
// nothing, whether the message is queued or dropped.
func TestPublishAllocatesNothingAtSteadyState(t *testing.T) {
	pub := NewPub(Config{SendMessages: 64})
	defer pub.Close()
	at, err := pub.Bind(context.Background(), "tcp://127.0.0.1:0")
	must(t, err)
	conn := rawPeer(t, at, "SUB")
	_, err = conn.Write(AppendCommand(nil, CommandSubscribe))
	must(t, err)
	eventually(t, "subscription", func() bool { p := pub.Peers(); return len(p) == 1 && p[0].Subscriptions == 1 })
	go func() {
		buf := make([]byte, 64<<10)
		for {
			if _, err := conn.Read(buf); err != nil {
				return
			}
		}
	}()
	topic, seq, body := []byte("kvw1@decode-0"), make([]byte, 8), make([]byte, 120)
	for range 20_000 {
		pub.Publish(topic, seq, body)
	}
	if got := testing.AllocsPerRun(20_000, func() { pub.Publish(topic, seq, body) }); got != 0 {
		t.Errorf("%v allocations a message, want 0", got)
	}
}
