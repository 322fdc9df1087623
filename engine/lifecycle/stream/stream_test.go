package stream

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
)

func fact(seq uint64) *lifecycle.Fact {
	return &lifecycle.Fact{
		T: 5, Inst: "e", Src: lifecycle.Engine, Ev: lifecycle.PagesRead, Epoch: lifecycle.Some(uint64(1)),
		Seq: lifecycle.Some(seq), Pool: "kv", Req: "7", Pages: lifecycle.Runs{{First: 1, Count: 8}},
	}
}

func TestABatchIsReadAsItWasBuilt(t *testing.T) {
	var b Builder
	for _, rank := range []lifecycle.Opt[int64]{{}, lifecycle.Some(int64(0)), lifecycle.Some(int64(-3))} {
		for n := range 5 { // the memory is used again
			for i := range n + 1 {
				b.Add(fact(uint64(i)))
			}
			payload := b.Finish(1.5, rank)
			got, err := ParseBatch(payload)
			if err != nil || got.TS != 1.5 || got.Rank != rank || got.Facts != n+1 {
				t.Fatalf("%+v, %v", got, err)
			}
			dec, i := lifecycle.NewMsgpackDecoder(), 0
			got.Each(func(raw []byte) {
				f, err := dec.Decode(raw)
				if err != nil || f.Seq.V != uint64(i) {
					t.Fatalf("fact %d: %+v, %v", i, f, err)
				}
				i++
			})
			if i != n+1 {
				t.Fatalf("%d facts of %d", i, n+1)
			}
		}
	}
}

// The convention of SGLang's and vLLM's KV events, byte for byte: the example of
// SGLang is read, though its events are not ours.
func TestABatchIsThatOfKVEvents(t *testing.T) {
	theirs := []byte("\x93\xcb\x3f\xf8\x00\x00\x00\x00\x00\x00\x91\x97\xab\x42\x6c\x6f\x63\x6b\x53\x74\x6f\x72\x65\x64\x91\x07\xc0\x92\x01\x02\x02\xc0\xa3\x47\x50\x55\x00")
	b, err := ParseBatch(theirs)
	if err != nil || b.TS != 1.5 || b.Facts != 1 || b.Rank != lifecycle.Some(int64(0)) {
		t.Fatalf("%+v, %v", b, err)
	}
	b.Each(func(raw []byte) {
		if _, err := lifecycle.NewMsgpackDecoder().Decode(raw); !errors.Is(err, lifecycle.ErrFact) {
			t.Fatalf("an event of theirs was taken for a fact: %v", err)
		}
	})
}

func TestABatchIsFullBeforeItIsTooLong(t *testing.T) {
	var b Builder
	long := fact(0)
	long.Reason = strings.Repeat("x", lifecycle.MaxText)
	long.Ev, long.Pages = lifecycle.RequestAborted, nil
	for !b.Full() {
		b.Add(long)
	}
	if payload := b.Finish(0, lifecycle.Opt[int64]{}); len(payload) > MaxBatchBytes {
		t.Fatalf("%d bytes", len(payload))
	}
	for n := 1; ; n++ {
		if b.Add(fact(1)); b.Full() {
			if n > MaxBatchFacts {
				t.Fatalf("full with %d facts", n)
			}
			break
		}
	}
	if _, err := ParseBatch(b.Finish(0, lifecycle.Opt[int64]{})); err != nil {
		t.Fatal(err)
	}
}

func TestWhatIsBeyondALimitIsRefused(t *testing.T) {
	for name, payload := range map[string][]byte{
		"too long":             make([]byte, MaxBatchBytes+1),
		"no array":             {0x80},
		"one element":          {0x91, 0xc0},
		"no time":              {0x93, 0xc0, 0x90, 0xc0},
		"events of 2^32":       append([]byte{0x93, 0xcb, 0, 0, 0, 0, 0, 0, 0, 0}, 0xdd, 0xff, 0xff, 0xff, 0xff),
		"cut off":              append([]byte{0x93, 0xcb, 0, 0, 0, 0, 0, 0, 0, 0}, 0x92, 0x80),
		"a rank that is a map": append([]byte{0x93, 0xcb, 0, 0, 0, 0, 0, 0, 0, 0}, 0x90, 0x80),
		"nested without end":   append(append([]byte{0x93, 0xcb, 0, 0, 0, 0, 0, 0, 0, 0}, 0x91), bytes.Repeat([]byte{0x91}, 1<<20)...),
	} {
		if _, err := ParseBatch(payload); !errors.Is(err, ErrBatch) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, frames := range map[string][][]byte{
		"two frames":      {Topic("e"), make([]byte, 8)},
		"another topic":   {[]byte("kv@e"), make([]byte, 8), nil},
		"no instance":     {[]byte(TopicPrefix), make([]byte, 8), nil},
		"a long instance": {Topic(strings.Repeat("x", lifecycle.MaxID+1)), make([]byte, 8), nil},
		"a short number":  {Topic("e"), make([]byte, 7), nil},
	} {
		if _, _, err := ParseMessage(frames); !errors.Is(err, ErrFrame) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestRequestsAndAnswersAreReadAsTheyWereMade(t *testing.T) {
	for _, r := range []Request{{Snapshot: true}, {From: 0}, {From: 1<<63 + 9}} {
		if got, err := ParseRequest(r.Frames()); err != nil || got != r {
			t.Errorf("%+v: %+v, %v", r, got, err)
		}
	}
	for _, frames := range [][][]byte{nil, {nil}, {nil, nil}, {[]byte("x"), make([]byte, 8)}, {nil, make([]byte, 8), nil}, {nil, []byte("snapshot")[:7]}} {
		if _, err := ParseRequest(frames); !errors.Is(err, ErrFrame) {
			t.Errorf("%q: %v", frames, err)
		}
	}
	number := []byte{0, 0, 0, 0, 0, 0, 0, 3}
	for _, frames := range [][][]byte{{nil, number, []byte("p")}, {nil, []byte("topic"), number, []byte("p")}} {
		if m, err := ParseAnswer(frames); err != nil || m.Seq != 3 || string(m.Payload) != "p" {
			t.Errorf("%q: %+v, %v", frames, m, err)
		}
	}
	if m, err := ParseAnswer([][]byte{nil, bytes.Repeat([]byte{0xff}, 8), nil}); err != nil || m.Seq != End {
		t.Errorf("the end: %+v, %v", m, err)
	}
}

func TestSocketsLieInOneFolderByInstance(t *testing.T) {
	events, replay, err := Endpoints("/run/x", "decode-0/tp1")
	if err != nil || events != "ipc:///run/x/decode-0%2Ftp1.events" || replay != "ipc:///run/x/decode-0%2Ftp1.replay" {
		t.Errorf("%s, %s, %v", events, replay, err)
	}
	if _, _, err := Endpoints("/run/x", strings.Repeat("x", 100)); !errors.Is(err, ErrPath) {
		t.Errorf("a path that no socket can have: %v", err)
	}
	if dir := DefaultDir(); !filepath.IsAbs(dir) && os.TempDir() != "" {
		t.Errorf("folder %q", dir)
	}
}

// Whatever is read, nothing panics, and what is taken keeps the limits.
func FuzzFrames(f *testing.F) {
	var b Builder
	b.Add(fact(3))
	payload := bytes.Clone(b.Finish(1.5, lifecycle.Some(int64(2))))
	f.Add([]byte("kvw1@e"), []byte("12345678"), payload)
	f.Add([]byte{}, []byte(snapshotRequest), payload[:9])
	f.Fuzz(func(t *testing.T, first, second, third []byte) {
		if inst, _, err := ParseMessage([][]byte{first, second, third}); err == nil && (inst == "" || len(inst) > lifecycle.MaxID) {
			t.Fatalf("instance of %d bytes", len(inst))
		}
		_, _ = ParseRequest([][]byte{first, second})
		_, _ = ParseAnswer([][]byte{first, second, third})
		batch, err := ParseBatch(third)
		if err != nil {
			return
		}
		dec, n := lifecycle.NewMsgpackDecoder(), 0
		batch.Each(func(raw []byte) {
			_, _ = dec.Decode(raw)
			n++
		})
		if n != batch.Facts || n > MaxBatchFacts {
			t.Fatalf("%d facts, said to be %d", n, batch.Facts)
		}
	})
}
