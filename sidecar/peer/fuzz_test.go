package peer

import (
	"bytes"
	"io"
	"net"
	"testing"
	"time"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/engine/lifecycle/subscribe"
	"github.com/kvwitness/kvwitness/sidecar/intake"
)

// conversation is a sequence of frames, for a corpus.
func conversation(frames ...func(n uint64) []byte) (all []byte) {
	for n, f := range frames {
		all = append(all, f(uint64(n))...)
	}
	return all
}

func says(k kind, fill func([]byte) []byte) func(uint64) []byte {
	return func(n uint64) []byte { return appendFrame(nil, k, n, 1_000_000_000, fill) }
}

// FuzzWhatAServerSends gives a session, whose clock is known and whose own instance is
// decode, whatever a server might send. What reaches the judge is the peer's to say, the
// sums are right, and nothing panics.
func FuzzWhatAServerSends(f *testing.F) {
	claims := func(ev lifecycle.Ev, inst string) func(uint64) []byte {
		fact := lifecycle.Fact{T: 1_000_000_000, Inst: inst, Src: lifecycle.Engine, Ev: ev, Epoch: lifecycle.Some(uint64(1)), Peer: "decode", Req: "r", Room: "1"}
		return says(kindFact, fact.AppendMsgpack)
	}
	moved := lifecycle.Fact{T: 1_000_000_000, Inst: "decode", Src: lifecycle.RDMA, Ev: lifecycle.BytesMoved, Addr: 1, Bytes: 1, From: "prefill"}
	sight := lifecycle.Fact{T: 1_000_000_000, Inst: "decode", Src: lifecycle.Sidecar, Ev: lifecycle.SourceCoverage, Of: lifecycle.RDMA, Complete: true, Peer: "prefill"}
	own := says(kindInstances, asJSON([]string{"prefill"}))
	f.Add(conversation(own, says(kindStanding, asJSON(standing{"prefill", "live"})), claims(lifecycle.PeerGone, "prefill"), says(kindMark, asTimes(1_000_000_000))))
	f.Add(conversation(own, says(kindFact, moved.AppendMsgpack), says(kindFact, sight.AppendMsgpack)))
	f.Add(conversation(own, claims(lifecycle.RequestAdmitted, "decode")))
	f.Add(conversation(says(kindPong, asTimes(1, 2)), says(kindHello, nil)))
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 6})
	f.Fuzz(func(t *testing.T, data []byte) {
		now := int64(1_000_000_000)
		in := intake.New(intake.Config{Now: func() int64 { return now }})
		l, err := NewLink(LinkConfig{
			Name: "peer", Address: "127.0.0.1:1", Node: "here", Secret: Secret{Token: token}, Now: func() int64 { return now }, In: in,
			Patience: time.Second, Pages: 1 << 10, Own: func() []string { return []string{"decode"} },
			Claim: func(inst string) bool { return inst != "decode" }, Sees: func(lifecycle.Src, string, string) bool { return false }, Log: quiet,
		})
		if err != nil {
			t.Fatal(err)
		}
		s := newSession(l, nil)
		s.in.in, s.node = bytes.NewReader(data), "there"
		s.begin(Reading{})
		for {
			fr, err := s.in.Next()
			if err != nil {
				break
			}
			if _, err := s.take(t.Context(), fr); err != nil {
				break
			}
		}
		s.lose(Malformed)
		st := l.Status()
		sum := st.Taken + st.Twice + st.PassedOver
		for _, n := range st.Lost {
			sum += n
		}
		if st.Received != sum {
			t.Fatalf("%+v", st)
		}
		now += int64(10 * time.Second)
		in.Take(func(*lifecycle.Fact) {})
		in.Take(func(f *lifecycle.Fact) { allowed(t, s, f) })
	})
}

// allowed fails if a fact is not the peer's to say, nor this node's about the link.
func allowed(t *testing.T, s *session, f *lifecycle.Fact) {
	switch {
	case f.Node == "here" && f.Src == lifecycle.Sidecar && !f.Complete:
	case f.Node == "there" && f.Ev == lifecycle.ClockOffset:
	case f.Node == "there" && f.Inst != "decode" && s.knows(f.Inst) && (f.Src == lifecycle.Engine || f.Src == lifecycle.Sidecar && !f.Complete):
	case f.Node == "there" && f.Inst == "decode" && f.Ev == lifecycle.BytesMoved && f.Src.Observes():
	case f.Node == "there" && f.Inst == "decode" && f.Ev == lifecycle.SourceCoverage && s.knows(f.Peer):
	default:
		t.Fatalf("the judge was told %+v", f)
	}
}

// FuzzWhatAClientSends gives a server whatever one who dialled might send.
func FuzzWhatAClientSends(f *testing.F) {
	f.Add(conversation(says(kindInstances, asJSON([]string{"decode"})), says(kindFollow, asJSON([]string{"prefill", "x"})), says(kindPing, asTimes(5))))
	f.Add(conversation(says(kindPing, asTimes(5)), says(kindFact, nil)))
	f.Add([]byte{0, 0, 0, 17, 4})
	f.Fuzz(func(t *testing.T, data []byte) {
		s := &Server{conns: map[*served]struct{}{}, sights: sights{}, cfg: ServerConfig{
			Node: "here", Now: func() int64 { return 1 }, Own: func() []string { return []string{"prefill"} },
			Stream: func(string) (subscribe.Config, bool) { return subscribe.Config{}, false }, Log: quiet,
		}}
		p := &served{s: s, conn: nowhere{}, in: &frames{in: bytes.NewReader(data)}, out: newOutbox(s.cfg.Now), relays: map[string]*relay{}}
		if _, err := p.listen(t.Context()); err == nil {
			t.Fatal("it goes on for ever")
		}
		if len(p.theirs) > MaxInstances || len(p.out.buf) > outboxBytes {
			t.Fatalf("%d instances, %d bytes", len(p.theirs), len(p.out.buf))
		}
	})
}

// nowhere is a connection whose deadlines nobody keeps.
type nowhere struct{ net.Conn }

func (nowhere) SetReadDeadline(time.Time) error { return nil }
func (nowhere) Read([]byte) (int, error)        { return 0, io.EOF }
func (nowhere) Close() error                    { return nil }
