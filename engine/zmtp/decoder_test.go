package zmtp

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"testing"
	"time"
)

// feed gives a decoder a stream in pieces of the sizes that cut returns, and
// collects its events.
func feed(d *Decoder, stream []byte, cut func(left int) int) ([]Event, error) {
	var out []Event
	for len(stream) > 0 {
		n := cut(len(stream))
		piece := stream[:n]
		stream = stream[n:]
		for {
			used, ev, err := d.Next(piece)
			if err != nil {
				return out, err
			}
			piece = piece[used:]
			if ev.Kind == NeedMore {
				break
			}
			out = append(out, ev)
		}
	}
	return out, nil
}

func whole(left int) int { return left }

func messages(evs []Event) [][][]byte {
	var out [][][]byte
	for _, ev := range evs {
		if ev.Kind == MessageEvent {
			frames, _ := bodies(ev.Message)
			out = append(out, frames)
		}
	}
	return out
}

func TestMessagesSurviveEveryCutOfTheStream(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	rng := rand.New(rand.NewPCG(seed, 1))
	want := [][][]byte{
		{[]byte("topic"), make([]byte, 8), bytes.Repeat([]byte("x"), 300)},
		{{}},
		{[]byte("a"), {}, {}},
		{bytes.Repeat([]byte("y"), 100_000)},
	}
	stream := AppendReady(AppendGreeting(nil, 1), Ready{SocketType: "PUSH"})
	for _, m := range want {
		stream = AppendMessage(stream, m...)
		stream = AppendCommand(stream, CommandPing, []byte{0, 1, 'c'})
	}
	for name, cut := range map[string]func(int) int{
		"whole":  whole,
		"single": func(int) int { return 1 },
		"random": func(left int) int { return 1 + rng.IntN(min(left, 700)) },
	} {
		evs, err := feed(NewDecoder(DecoderConfig{}), stream, cut)
		if err != nil {
			t.Fatalf("%s (seed %d): %v", name, seed, err)
		}
		if evs[0].Kind != GreetingEvent || evs[0].Greeting.Minor != 1 {
			t.Fatalf("%s: first event is %+v, want the greeting of 3.1", name, evs[0])
		}
		got := messages(evs)
		if len(got) != len(want) || len(evs) != 2+2*len(want) {
			t.Fatalf("%s (seed %d): %d messages of %d events, want %d of %d", name, seed, len(got), len(evs), len(want), 2+2*len(want))
		}
		for i := range want {
			for j := range want[i] {
				if !bytes.Equal(got[i][j], want[i][j]) {
					t.Errorf("%s (seed %d): message %d frame %d differs", name, seed, i, j)
				}
			}
		}
	}
}

func TestCommandBetweenFramesOfAMessageDoesNotDisturbIt(t *testing.T) {
	stream := append([]byte{flagMore, 1}, 'a')
	stream = AppendCommand(stream, CommandPing, []byte{0, 0})
	stream = append(stream, 0, 1, 'b')
	evs, err := feed(NewDecoder(DecoderConfig{Joined: true}), stream, whole)
	if err != nil || len(evs) != 2 {
		t.Fatalf("got %d events, error %v; want the command and the message", len(evs), err)
	}
	if m := messages(evs); len(m) != 1 || string(m[0][0])+string(m[0][1]) != "ab" {
		t.Errorf("message is %q, want a b", m)
	}
}

func TestWhatBreaksTheFormatIsRefusedAtItsFirstWrongByte(t *testing.T) {
	huge := append([]byte{flagLong}, binary.BigEndian.AppendUint64(nil, 1<<62)...)
	greeting := AppendGreeting(nil, 1)
	curve := AppendGreeting(nil, 0)
	copy(curve[mechanismAt:], "CURVE")
	old := AppendGreeting(nil, 0)
	old[versionMajorAt] = 2
	many := bytes.Repeat([]byte{flagMore, 0}, DefaultFrames+1)
	for name, c := range map[string]struct {
		joined bool
		in     []byte
		want   error
		used   int
	}{
		"http":             {false, []byte("GET / HTTP/1.1\r\n"), ErrGreeting, 1},
		"signature":        {false, append([]byte{0xff}, make([]byte, 20)...), ErrGreeting, 10},
		"version 2":        {false, old, ErrGreeting, 11},
		"curve":            {false, curve, ErrMechanism, 32},
		"2^62":             {true, huge, ErrTooLarge, 9},
		"2^62 after hello": {false, append(greeting, huge...), ErrTooLarge, 73},
		"reserved bits":    {true, []byte{0x08, 0}, ErrFrame, 1},
		"command and more": {true, []byte{flagCommand | flagMore, 1}, ErrFrame, 1},
		"empty command":    {true, []byte{flagCommand, 0}, ErrFrame, 2},
		"name too long":    {true, []byte{flagCommand, 2, 9, 'x'}, ErrFrame, 4},
		"long command":     {true, binary.BigEndian.AppendUint64([]byte{flagCommand | flagLong}, 1<<20), ErrTooLarge, 9},
		"too many frames":  {true, many, ErrTooLarge, 2 * (DefaultFrames + 1)},
	} {
		d := NewDecoder(DecoderConfig{Joined: c.joined})
		used := 0
		var err error
		for i := range c.in {
			n, _, e := d.Next(c.in[i : i+1])
			used += n
			if err = e; err != nil {
				break
			}
		}
		if !errors.Is(err, c.want) || used > c.used {
			t.Errorf("%s: error %v after %d bytes, want %v by byte %d", name, err, used, c.want, c.used)
		}
		if _, _, again := d.Next([]byte{0}); !errors.Is(again, c.want) {
			t.Errorf("%s: the error is not final: %v", name, again)
		}
	}
}

func TestALengthIsNotAllocatedBeforeItsBytesArrive(t *testing.T) {
	header := binary.BigEndian.AppendUint64([]byte{flagLong}, DefaultFrameBytes)
	got := testing.AllocsPerRun(10, func() {
		d := NewDecoder(DecoderConfig{Joined: true})
		if _, _, err := d.Next(header); err != nil {
			t.Fatal(err)
		}
		if c := cap(d.frame.Body); c > growStep {
			t.Fatalf("%d bytes allocated for a header alone", c)
		}
	})
	if got > 3 {
		t.Errorf("%v allocations, want at most 3", got)
	}
}

func TestMessageBytesBoundTheSumOfFrames(t *testing.T) {
	d := NewDecoder(DecoderConfig{Joined: true, Limits: Limits{MessageBytes: 100}})
	stream := append([]byte{flagMore, 60}, make([]byte, 60)...)
	stream = append(stream, 0, 60)
	if _, err := feed(d, stream, whole); !errors.Is(err, ErrTooLarge) {
		t.Errorf("error %v, want ErrTooLarge", err)
	}
}

func TestKeepDropsContentAtTheHeader(t *testing.T) {
	secret := bytes.Repeat([]byte("s"), 1<<20)
	d := NewDecoder(DecoderConfig{
		Joined: true,
		Limits: Limits{MessageBytes: 64},
		Keep: func(first []byte, index int, size uint64) int64 {
			if index == 1 && string(first) == "AUX" {
				return -1
			}
			return int64(size)
		},
	})
	stream := AppendMessage(nil, []byte("AUX"), secret, []byte("tail"))
	evs, err := feed(d, stream, func(left int) int { return min(left, 999) })
	if err != nil || len(evs) != 1 {
		t.Fatalf("%d events, error %v", len(evs), err)
	}
	m := evs[0].Message
	if len(m[1].Body) != 0 || m[1].Size != 1<<20 || string(m[2].Body) != "tail" {
		t.Errorf("kept %d bytes of a frame of %d, tail %q; want 0 of %d", len(m[1].Body), m[1].Size, m[2].Body, 1<<20)
	}
}

func TestAGapInABodyDamagesOneFrameAndKeepsTheBoundary(t *testing.T) {
	stream := AppendMessage(nil, []byte("head"), bytes.Repeat([]byte("b"), 1000), []byte("tail"))
	stream = AppendMessage(stream, []byte("next"))
	d := NewDecoder(DecoderConfig{Joined: true})
	first := 6 + 9 + 400 // into the second frame's body
	evs, err := feed(d, stream[:first], whole)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Gap(600); err != nil {
		t.Fatalf("gap to the end of the body: %v", err)
	}
	rest, err := feed(d, stream[first+600:], whole)
	if err != nil {
		t.Fatal(err)
	}
	evs = append(evs, rest...)
	if len(evs) != 2 {
		t.Fatalf("%d messages, want 2", len(evs))
	}
	m := evs[0].Message
	if m[0].Damaged || !m[1].Damaged || len(m[1].Body) != 0 || m[2].Damaged || string(m[2].Body) != "tail" {
		t.Errorf("got %+v, want only frame 1 damaged and empty", m)
	}
	if string(evs[1].Message[0].Body) != "next" {
		t.Errorf("the message after is %q", evs[1].Message[0].Body)
	}
}

func TestAGapThatCompletesAMessageIsTakenWithNoBytes(t *testing.T) {
	d := NewDecoder(DecoderConfig{Joined: true})
	if _, _, err := d.Next([]byte{0, 5, 'a'}); err != nil {
		t.Fatal(err)
	}
	if err := d.Gap(4); err != nil {
		t.Fatal(err)
	}
	if _, ev, err := d.Next(nil); err != nil || ev.Kind != MessageEvent || !ev.Message[0].Damaged {
		t.Errorf("event %+v, error %v; want the damaged message", ev, err)
	}
}

func TestAGapOverAHeaderLosesTheBoundary(t *testing.T) {
	for name, at := range map[string]int{"at a header": 0, "in a header": 1, "beyond the body": 2} {
		d := NewDecoder(DecoderConfig{Joined: true})
		if _, _, err := d.Next([]byte{0, 5}[:at]); err != nil {
			t.Fatal(err)
		}
		if err := d.Gap(6); !errors.Is(err, ErrLostSync) {
			t.Errorf("%s: error %v, want ErrLostSync", name, err)
		}
		if _, _, err := d.Next([]byte{0, 0}); !errors.Is(err, ErrLostSync) {
			t.Errorf("%s: the stream goes on: %v", name, err)
		}
	}
}

func TestReadyKeepsWhatItSays(t *testing.T) {
	b := AppendReady(nil, Ready{SocketType: "DEALER", Identity: "decode-0"})
	c, err := parseCommand(b[2:])
	if err != nil {
		t.Fatal(err)
	}
	body := appendProperty(c.Body, "X-Other", "1")
	r, err := ParseReady(body)
	if err != nil || r.SocketType != "DEALER" || r.Identity != "decode-0" || r.Unknown != 1 {
		t.Errorf("got %+v, error %v", r, err)
	}
	for name, bad := range map[string][]byte{
		"value beyond the end": binary.BigEndian.AppendUint32([]byte{1, 'a'}, 1<<31),
		"name beyond the end":  {200, 'a'},
		"no name":              {0, 0, 0, 0, 0},
	} {
		if _, err := ParseReady(bad); !errors.Is(err, ErrFrame) {
			t.Errorf("%s: error %v, want ErrFrame", name, err)
		}
	}
	var many []byte
	for range maxProperties + 1 {
		many = appendProperty(many, "a", "")
	}
	if _, err := ParseReady(many); !errors.Is(err, ErrTooLarge) {
		t.Errorf("many properties: error %v, want ErrTooLarge", err)
	}
}
