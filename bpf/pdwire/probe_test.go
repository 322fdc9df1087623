//go:build amd64

package pdwire

import (
	"bytes"
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/kvwitness/kvwitness/bpf/load"
	wire "github.com/kvwitness/kvwitness/engine/pdwire"
	"github.com/kvwitness/kvwitness/engine/zmtp"
	source "github.com/kvwitness/kvwitness/sidecar/source/pdwire"
)

// conversation is one message of every shape, and some of none, from a seed.
func conversation(seed uint64) [][][]byte {
	r := rand.New(rand.NewPCG(seed, 1))
	at := wire.Address{Host: "127.0.0.1", Port: 4711}
	pages := make([]int32, r.IntN(3000))
	for i := range pages {
		pages[i] = r.Int32N(1 << 20)
	}
	room := r.Int64()
	content := bytes.Repeat([]byte(secret), 1+r.IntN(3000))
	vllm := wire.AppendVLLMTransfer(nil, &wire.VLLMTransfer{
		Hostname: "h", Port: 1, Requests: []wire.VLLMRequest{{ID: "r", Transfer: "x", Groups: [][]int64{{1, 2}}}},
		BaseAddrs: []uint64{1 << 40}, BlockBytes: []uint64{4096}, KVBlockBytes: []uint64{4096},
	})
	return [][][]byte{
		(&wire.Registration{Address: at, Session: "s:1", KVPtrs: []uint64{1 << 40, 1 << 41}, AuxPtrs: []uint64{7}, KVItemBytes: 4096, DCPSize: 1}).Frames(),
		(&wire.TransferRequest{Room: room, Address: at, Session: "s:1", Pages: pages, AuxIndex: 3, RequiredDst: 1}).Frames(),
		{[]byte("AUX_DATA"), []byte("7"), []byte("0"), []byte("7"), {0, 0, 1, 0}, content},
		(&wire.Status{Room: room, Status: wire.StatusSuccess, PrefillRank: 0}).Frames(),
		(&wire.Abort{Room: room, Address: at}).Frames(),
		(&wire.AbortAck{Room: room, PrefillRank: 1}).Frames(),
		{[]byte("kv-events"), make([]byte, 8), content}, // as SGLang's KV events: token ids
		{nil, make([]byte, 8), content},                 // the same without a topic
		{content},
		{[]byte("\x80\x04\x95" + secret)}, // a pickle
		{[]byte("None of " + secret)},
		{vllm},
		wireReply(),
	}
}

func wireReply() [][]byte {
	return [][]byte{wire.AppendVLLMReply(nil, &wire.VLLMReply{OK: []string{"r"}})}
}

// shaped are the messages of a conversation that may be handed on, and of
// AUX_DATA what of it may.
func shaped(all [][][]byte) (out [][][]byte) {
	for i, m := range all {
		if i < 6 || i > 10 {
			out = append(out, m)
		}
	}
	return out
}

func check(t *testing.T, got []*source.Message, want [][][]byte) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d messages, want %d", len(got), len(want))
	}
	for i, m := range got {
		if len(m.Frames) != len(want[i]) {
			t.Fatalf("message %d has %d frames, want %d", i, len(m.Frames), len(want[i]))
		}
		for j, f := range m.Frames {
			content := string(want[i][0]) == "AUX_DATA" && j == 5
			if f.Size != uint64(len(want[i][j])) || f.Damaged != content || !content && !bytes.Equal(f.Body, want[i][j]) {
				t.Fatalf("message %d, frame %d: %d bytes kept of %d, damaged %v, want %d bytes", i, j, len(f.Body), f.Size, f.Damaged, len(want[i][j]))
			}
		}
	}
}

// Promise: what two sockets of ours say to each other is seen at both ends, every
// frame of a known shape as it was sent and in order, and nothing else of it.
func TestMessagesAreSeenAtBothEnds(t *testing.T) {
	w := watch(t, load.Options{})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	pull := zmtp.NewPull(zmtp.Config{})
	defer pull.Close()
	at, err := pull.Bind(ctx, "tcp://127.0.0.1:0")
	must(t, err)
	push := zmtp.NewPush(zmtp.Config{})
	defer push.Close()
	must(t, push.Connect(at))
	var want [][][]byte
	for seed := range uint64(20) {
		all := conversation(seed)
		want = append(want, shaped(all)...)
		for _, m := range all {
			must(t, push.Send(ctx, m...))
			if _, err := pull.Recv(ctx); err != nil {
				t.Fatal(err)
			}
		}
	}
	sent, received := w.await(len(want))
	check(t, sent, want)
	check(t, received, want)
	for i := range sent {
		if sent[i].Flow != received[i].Flow || sent[i].End != received[i].End {
			t.Fatalf("message %d ends at %d of %v for the one, at %d of %v for the other", i, sent[i].End, sent[i].Flow, received[i].End, received[i].Flow)
		}
	}
	if len(w.lost) > 0 || w.kinds[source.Opened] != 4 || w.kinds[source.Cut] == 0 {
		t.Errorf("lost %q, kinds %v", w.lost, w.kinds)
	}
}

// stream is the bytes of a PUSH socket's side of a connection.
func stream(messages [][][]byte) []byte {
	b := zmtp.AppendGreeting(nil, 1)
	b = zmtp.AppendCommand(b, zmtp.CommandReady, []byte("\x0bSocket-Type\x00\x00\x00\x04PUSH"))
	for _, m := range messages {
		b = zmtp.AppendMessage(b, m...)
	}
	return b
}

// Promise: it does not matter how a process cuts what it sends and receives.
func TestMessagesAreSeenHoweverTheyAreCut(t *testing.T) {
	long := append(conversation(1), conversation(2)...)
	short := conversation(3)
	short[1], short[2][5], short[6], short[7], short[8] = short[3], []byte(secret), nil, nil, [][]byte{[]byte(secret)}
	short = append(short[:6], short[8:]...)
	ways := map[string]struct {
		sends, reads []int
		messages     [][][]byte
		want         [][][]byte
	}{
		"byte by byte":     {[]int{1}, []int{1}, short, append(shaped(short[:6]), short[9:]...)},
		"seven and eleven": {[]int{7}, []int{11}, long, append(shaped(long[:13]), shaped(long[13:])...)},
		"at once":          {whole, []int{1 << 16}, long, append(shaped(long[:13]), shaped(long[13:])...)},
		"as libzmq":        {[]int{8192}, []int{8192}, long, append(shaped(long[:13]), shaped(long[13:])...)},
		"odd":              {[]int{10, 1, 53, 30, 3, 4099}, []int{1, 63, 9000, 2, 5}, long, append(shaped(long[:13]), shaped(long[13:])...)},
	}
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			w := watch(t, load.Options{})
			client, server := pair(t)
			carry(t, client, server, stream(way.messages), way.sends, way.reads)
			sent, received := w.await(len(way.want))
			check(t, sent, way.want)
			check(t, received, way.want)
			if len(w.lost) > 0 {
				t.Errorf("lost %q", w.lost)
			}
		})
	}
}

// Promise: a frame of 8 MiB, 2 million pages, arrives whole; a longer one is cut
// and the next message is right.
func TestFramesOfEightMebibytesArriveWhole(t *testing.T) {
	w := watch(t, load.Options{RingBytes: 64 << 20})
	client, server := pair(t)
	page := []byte("\x01\x02\x03\x04")
	long := [][]byte{[]byte("17"), []byte("h"), []byte("1"), []byte("s"), bytes.Repeat(page, source.MaxFrame/4), []byte("0"), []byte("1")}
	longer := append([][]byte(nil), long...)
	longer[4] = append([]byte(secret), long[4]...)
	last := (&wire.Abort{Room: 3}).Frames()
	carry(t, client, server, stream([][][]byte{long, longer, last}), whole, []int{1 << 20})
	sent, received := w.await(3)
	for _, side := range [][]*source.Message{sent, received} {
		check(t, side[:1], [][][]byte{long})
		check(t, side[2:], [][][]byte{last})
		if f := side[1].Frames[4]; !f.Damaged || f.Size != uint64(len(longer[4])) || len(f.Body) > 0 {
			t.Errorf("of a frame of %d bytes %d were kept", f.Size, len(f.Body))
		}
	}
}

// Promise: a connection that was open before is followed from the first call that
// is whole messages of known shapes, and from no other.
func TestAnOpenConnectionIsJoinedAtWholeMessages(t *testing.T) {
	client, server := pair(t)
	before := stream(conversation(1))
	carry(t, client, server, before, whole, whole)
	w := watch(t, load.Options{})
	first := (&wire.Abort{Room: 1}).Frames()
	half := zmtp.AppendMessage(nil, first...)
	carry(t, client, server, half, []int{10}, []int{10}) // two halves: neither is whole
	foreign := zmtp.AppendMessage(nil, []byte("kv-events"), []byte(secret))
	carry(t, client, server, foreign, whole, whole)
	second := (&wire.Abort{Room: 2}).Frames()
	third := (&wire.Status{Room: 2, Status: wire.StatusSuccess}).Frames()
	carry(t, client, server, zmtp.AppendMessage(zmtp.AppendMessage(nil, second...), third...), whole, whole)
	sent, received := w.await(2)
	check(t, sent, [][][]byte{second, third})
	check(t, received, [][][]byte{second, third})
	if w.kinds[source.Joined] != 2 {
		t.Errorf("joined %d times", w.kinds[source.Joined])
	}
}

// Promise: bytes that go by unseen make the direction blind until it is joined.
func TestBytesThatGoByUnseenAreNoticed(t *testing.T) {
	w := watch(t, load.Options{})
	client, server := pair(t)
	b := stream(conversation(1)[:1])
	_, err := client.Write(b)
	must(t, err)
	splice(t, server, 100) // of the greeting and the command
	rest := make([]byte, len(b)-100)
	_, err = server.Read(rest)
	must(t, err)
	second := (&wire.Abort{Room: 2}).Frames()
	carry(t, client, server, zmtp.AppendMessage(nil, second...), whole, whole)
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if w.drain(); w.kinds[source.Joined] > 0 {
			break
		}
	}
	_, received := w.sides()
	check(t, received, [][][]byte{second})
}

// Promise: encryption is told, and nothing of it is handed on.
func TestAnEncryptedConnectionIsToldAsRefused(t *testing.T) {
	w := watch(t, load.Options{})
	client, server := pair(t)
	b := stream(conversation(1))
	copy(b[12:], "CURVE")
	carry(t, client, server, b, []int{64, 1 << 20}, []int{64, 1 << 20})
	w.drain()
	if w.kinds[source.Refused] != 2 || w.kinds[source.Data] > 0 {
		t.Errorf("kinds %v", w.kinds)
	}
}

// Promise: other traffic is let go of after its first bytes, and nothing of it is
// handed on.
func TestOtherTrafficIsLetGo(t *testing.T) {
	w := watch(t, load.Options{})
	for _, text := range []string{"GET / HTTP/1.1\r\n" + secret, "\xff" + secret + secret + secret, "\x00\x00"} {
		client, server := pair(t)
		carry(t, client, server, []byte(text), whole, whole)
	}
	client, server := pair(t)
	carry(t, client, server, []byte(secret), whole, whole)
	w.drain()
	if w.bytes != 0 {
		t.Errorf("%d bytes of records: %v", w.bytes, w.kinds)
	}
}

// Promise: what the ring loses is counted, damages only what it was part of, and
// the stream goes on at the next record that begins with a message.
func TestAStreamGoesOnAfterTheRingLostRecords(t *testing.T) {
	w := watch(t, load.Options{RingBytes: 8192})
	client, server := pair(t)
	carry(t, client, server, stream(nil), whole, whole)
	w.drain()
	m := (&wire.TransferRequest{Room: 5, Session: "s", Pages: make([]int32, 400)}).Frames()
	for range 20 {
		carry(t, client, server, zmtp.AppendMessage(nil, m...), whole, whole)
	}
	w.drain()
	counted, err := w.p.Counters()
	must(t, err)
	if counted[RecordsLost] == 0 {
		t.Fatal("nothing was lost")
	}
	had, _ := w.sides()
	last := (&wire.Abort{Room: 2}).Frames()
	carry(t, client, server, zmtp.AppendMessage(nil, last...), whole, whole)
	sent, received := w.await(len(had) + 1)
	check(t, sent[len(sent)-1:], [][][]byte{last})
	check(t, received[len(received)-1:], [][][]byte{last})
	if w.reader.Stats().Holes == 0 {
		t.Error("no hole was noticed")
	}
}

// Promise: a frame that lies about its length makes its direction blind, or waits
// for bytes that do not come; the other direction and other connections go on.
func TestAFrameThatLiesAboutItsLength(t *testing.T) {
	for name, c := range map[string]struct {
		frame []byte
		blind int
	}{
		"2^63":         {[]byte{2, 0x80, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3}, 2},
		"2^61":         {[]byte{2, 0x20, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3}, 0},
		"unknown flag": {[]byte{0x80, 4, 'N', 'o', 'n', 'e'}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			w := watch(t, load.Options{})
			client, server := pair(t)
			carry(t, client, server, append(stream(nil), c.frame...), whole, whole)
			carry(t, client, server, bytes.Repeat([]byte(secret), 1000), whole, whole)
			carry(t, server, client, stream([][][]byte{(&wire.Abort{Room: 1}).Frames()}), whole, whole)
			other, end := pair(t)
			carry(t, other, end, stream([][][]byte{(&wire.Abort{Room: 2}).Frames()}), whole, whole)
			w.await(2)
			if w.kinds[source.Blind] != c.blind {
				t.Errorf("blind %d times, want %d", w.kinds[source.Blind], c.blind)
			}
		})
	}
}
