package control

import (
	"reflect"
	"testing"

	"github.com/kvwitness/kvwitness/engine/handoff"
	"github.com/kvwitness/kvwitness/engine/kvcache"
	"github.com/kvwitness/kvwitness/engine/pdwire"
	"github.com/kvwitness/kvwitness/engine/scheduler"
)

var self = pdwire.Address{Host: "127.0.0.1", Port: 7}

func sample() (scheduler.SendTargets, handoff.Addresses) {
	targets := scheduler.SendTargets{
		Room: 9, Peer: "p:1", Pages: []kvcache.PageID{3, 4, 9}, Gens: []kvcache.Gen{1, 1 << 39, 7}, Slot: 2, SlotGen: 1 << 33, PrefixTokens: 32,
	}
	addresses := handoff.Addresses{
		Pages: []uint64{1 << 40, 2 << 40, 3 << 40, 4 << 40}, Layers: []uint32{0, 0, 1, 1}, Stride: 8192,
		Tags: []uint64{5 << 40, 6 << 40}, Slots: 7 << 40, SlotTags: 8 << 40,
	}
	return targets, addresses
}

func reparse(t testing.TB, m pdwire.Message) pdwire.Message {
	t.Helper()
	out, err := pdwire.ParseBodies(m.Frames())
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// Promise: what one side says, the other takes for the same, in SGLang's frames.
func TestTargetsAndAddressesComeThrough(t *testing.T) {
	a, at := sample()
	got, err := targets(reparse(t, request(self, "s:1", a)).(*pdwire.TransferRequest), "d:7")
	want := scheduler.Targets{Room: 9, Peer: "d:7", Pages: a.Pages, Gens: a.Gens, Slot: 2, SlotGen: 1 << 33, PrefixTokens: 32}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v; want %+v", got, err, want)
	}
	m := registration(self, "s:1", at, 1)
	if n := len(m.Frames()); n != 19 {
		t.Errorf("a registration of %d frames", n)
	}
	if got := addresses(reparse(t, m).(*pdwire.Registration)); !reflect.DeepEqual(got, at) {
		t.Errorf("%+v, want %+v", got, at)
	}
}

// Promise: a peer of another engine is worked with, and nothing is stamped there.
func TestAPeerWithoutTagsHasNone(t *testing.T) {
	_, at := sample()
	m := registration(self, "s:1", at, 1)
	m.StatePtrs, m.StateItemBytes, m.StateLayerIDs = nil, nil, nil
	if got := addresses(m); got.Tags != nil || got.Slots != 0 || len(got.Pages) != 4 {
		t.Errorf("%+v", got)
	}
	got, err := targets(&pdwire.TransferRequest{Room: 1, Pages: []int32{5, 6}, AuxIndex: -1}, "d:7")
	if err != nil || len(got.Gens) != 2 || got.Slot != kvcache.NullPage {
		t.Errorf("%+v, %v", got, err)
	}
}

// Promise: reasons carry status and length both ways; what others write there is
// taken for a 502, or for no length.
func TestReasons(t *testing.T) {
	if s, r := parseFailure(failureText(400, "too long")); s != 400 || r != "too long" {
		t.Errorf("%d %q", s, r)
	}
	if s, r := parseFailure("KVTransferError at 3"); s != 502 || r != "KVTransferError at 3" {
		t.Errorf("%d %q", s, r)
	}
	if p, n, ok := parseLength(lengthText(8, 480)); p != 8 || n != 480 || !ok {
		t.Errorf("%d %d %v", p, n, ok)
	}
	for _, text := range []string{"", "8", "-1 4", "x y"} {
		if _, _, ok := parseLength(text); ok {
			t.Errorf("%q says a length", text)
		}
	}
}

// Promise: no message of a peer panics, and pages and generations stay parallel.
func FuzzTargets(f *testing.F) {
	f.Add(int64(9), []byte{1, 0, 0, 0}, []byte{1, 0, 0, 0, 0, 0, 0, 0}, int64(3), 16, "400 x")
	f.Fuzz(func(t *testing.T, room int64, pages, words []byte, aux int64, prefix int, text string) {
		m := &pdwire.TransferRequest{Room: room, Pages: ints(pages), AuxIndex: aux, PrefixLen: prefix, StateIndices: [][]int32{nil, ints(words)}}
		got, err := targets(m, "p")
		if err == nil && (len(got.Gens) != len(got.Pages) || got.Room == 0) {
			t.Errorf("%+v", got)
		}
		if s, _ := parseFailure(text); s < 400 || s > 599 {
			t.Errorf("status %d", s)
		}
		if p, n, ok := parseLength(text); ok && (p < 0 || n < 0) {
			t.Errorf("%d %d", p, n)
		}
	})
}

func ints(b []byte) (out []int32) {
	for ; len(b) >= 4; b = b[4:] {
		out = append(out, int32(b[0])|int32(b[1])<<8|int32(b[2])<<16|int32(b[3])<<24)
	}
	return out
}
