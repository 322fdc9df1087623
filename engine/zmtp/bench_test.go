package zmtp

import (
	"context"
	"testing"
	"time"
)

// publisherWithOne returns a publisher and one subscriber, a bare connection
// whose bytes are read and thrown away.
func publisherWithOne(tb testing.TB, cfg Config) *Pub {
	tb.Helper()
	pub := NewPub(cfg)
	at, err := pub.Bind(context.Background(), "tcp://127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	e, err := parseEndpoint(at)
	if err != nil {
		tb.Fatal(err)
	}
	conn, err := e.dial(context.Background())
	if err != nil {
		tb.Fatal(err)
	}
	hello := AppendReady(AppendGreeting(nil, 1), Ready{SocketType: "SUB"})
	if _, err := conn.Write(AppendCommand(hello, CommandSubscribe, []byte("kvw1@"))); err != nil {
		tb.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		buf := make([]byte, 256<<10)
		for {
			if _, err := conn.Read(buf); err != nil {
				return
			}
		}
	}()
	tb.Cleanup(func() {
		_ = pub.Close()
		_ = conn.Close()
		<-done
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

func drained(pub *Pub) bool {
	p := pub.Peers()
	return len(p) == 1 && p[0].Waiting == 0
}

// The queue is let run empty now and then, off the clock, so that what is
// timed is queueing and not dropping.
func BenchmarkPublishToOneSubscriber(b *testing.B) {
	const burst = 20_000
	pub := publisherWithOne(b, Config{SendBytes: 64 << 20, SendMessages: 2 * burst})
	topic, seq, body := []byte("kvw1@decode-0"), make([]byte, 8), make([]byte, 120)
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		if i%burst == burst-1 {
			b.StopTimer()
			for !drained(pub) {
				time.Sleep(100 * time.Microsecond)
			}
			b.StartTimer()
		}
		if q, _ := pub.Publish(topic, seq, body); q != 1 {
			b.Fatalf("message %d was dropped", i)
		}
	}
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
	pub := publisherWithOne(t, Config{SendMessages: 64})
	topic, seq, body := []byte("kvw1@decode-0"), make([]byte, 8), make([]byte, 120)
	for range 20_000 {
		pub.Publish(topic, seq, body)
	}
	if got := testing.AllocsPerRun(20_000, func() { pub.Publish(topic, seq, body) }); got != 0 {
		t.Errorf("%v allocations a message, want 0", got)
	}
	if s := pub.Stats(); s.Queued == 0 || s.Dropped == 0 {
		t.Errorf("only one of the two ways was taken: %+v", s)
	}
}

// The dearest message: its writer sleeps and must be woken. The wake-up is
// timed with it; what the writer then does is not.
func BenchmarkPublishWakesTheWriter(b *testing.B) {
	pub := publisherWithOne(b, Config{})
	topic, seq, body := []byte("kvw1@decode-0"), make([]byte, 8), make([]byte, 120)
	var spent time.Duration
	for range b.N {
		began := time.Now()
		pub.Publish(topic, seq, body)
		spent += time.Since(began)
		for !drained(pub) {
			time.Sleep(time.Microsecond)
		}
	}
	b.ReportMetric(float64(spent.Nanoseconds())/float64(b.N), "ns/publish")
}
