package peer

import (
	"bytes"
	"testing"
	"time"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/sidecar/intake"
)

// BenchmarkTake is what one fact of a peer's engine costs from its frame to the judge's
// door, without the network and TLS.
func BenchmarkTake(b *testing.B) {
	var now int64 = 1e9
	in := intake.New(intake.Config{Now: func() int64 { return now }})
	l, err := NewLink(LinkConfig{
		Name: "peer", Address: "127.0.0.1:1", Node: "here", Secret: Secret{Token: token}, Now: func() int64 { return now }, In: in,
		Patience: time.Second, Pages: 1 << 20, Own: func() []string { return nil }, Claim: func(string) bool { return true }, Log: quiet,
	})
	if err != nil {
		b.Fatal(err)
	}
	s := newSession(l, nil)
	s.begin(Reading{})
	if _, err := s.announced([]string{"prefill"}); err != nil {
		b.Fatal(err)
	}
	const batch = 1000
	f := claim("prefill", lifecycle.PagesRead, 0, now)
	f.Pool, f.Req, f.Pages = "kv", "r-1", lifecycle.Runs{{First: 1, Count: 16}}
	var frames []byte
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		if n%batch == 0 {
			b.StopTimer()
			now += int64(time.Second) // all of before is due
			f.T, frames = now, frames[:0]
			for i := range batch {
				f.Seq = lifecycle.Some(uint64(n + i))
				frames = appendFrame(frames, kindFact, uint64(n+i), now, f.AppendMsgpack)
			}
			s.in.in = bytes.NewReader(frames)
			s.remotes["prefill"].src.Heard(now)
			s.come = now
			in.Take(func(*lifecycle.Fact) {})
			in.Take(func(*lifecycle.Fact) {})
			s.pace = pace{}
			b.StartTimer()
		}
		fr, err := s.in.Next()
		if err != nil {
			b.Fatal(err)
		}
		fr.sent = now
		if end, err := s.take(b.Context(), fr); err != nil {
			b.Fatal(end, err)
		}
	}
}
