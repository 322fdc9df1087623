package e2e

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/kvwitness/kvwitness/engine/pdwire"
	"github.com/kvwitness/kvwitness/engine/process"
	"github.com/kvwitness/kvwitness/engine/scheduler"
)

func unhex(t *testing.T, frames []string) (out [][]byte) {
	t.Helper()
	for _, f := range frames {
		b, err := hex.DecodeString(f)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, b)
	}
	return out
}

// Promise: a decode that pyzmq lays out as SGLang's, of an old and of a newer
// version, gets every page of a prompt from kvengine's prefill, at the addresses
// that it registered, and the status that SGLang waits for.
func TestPrefillServesAPyzmqDecode(t *testing.T) {
	for _, old := range []bool{true, false} {
		t.Run(fmt.Sprintf("old=%v", old), func(t *testing.T) {
			c := newCluster(t)
			t.Cleanup(c.close)
			var err error
			if c.prefill, err = c.start(scheduler.Prefill, nil); err != nil {
				t.Fatal(err)
			}
			peer := newSGLangPeer(t)
			at := peer.do("hello", nil).Control
			const regions, item, room = 4, 8192, 4711
			peer.do("register", map[string]any{"to": c.prefill.Control, "regions": regions, "item": item, "old": old})
			c.await("the peer is registered", func() bool { return c.prefill.Peers() == 1 })
			body, _ := json.Marshal(map[string]any{
				"prompt": story[:40], "max_tokens": 5, "bootstrap_room": room, "bootstrap_host": "127.0.0.1", "bootstrap_port": 1, "bootstrap_decode": at,
			})
			done := make(chan answer, 1)
			go func() { a, _ := ask(t.Context(), c.prefill.URL()+"/v1/completions", "", body); done <- a }()
			pages := []int{9, 10, 5}
			peer.do("request", map[string]any{"to": c.prefill.Control, "room": room, "pages": pages, "old": old})
			frames := unhex(t, peer.do("receive", nil).Frames)
			if len(frames) < 3 || string(frames[0]) != "4711" || string(frames[1]) != "4" || string(frames[2]) != "0" {
				t.Fatalf("status %q", frames)
			}
			if a := <-done; a.status != 200 {
				t.Fatalf("prefill answers %d %s", a.status, a.raw)
			}
			want := map[uint64]bool{}
			for region := range uint64(regions) {
				for _, p := range pages {
					want[(region+1)<<32+uint64(p)*item] = true
				}
			}
			for _, w := range peer.do("writes", nil).Writes {
				for addr := w[0]; addr < w[0]+w[1]; addr += item {
					if !want[addr] {
						t.Fatalf("%d bytes at %#x, which is no page of the room", w[1], w[0])
					}
					delete(want, addr)
				}
			}
			if len(want) != 0 {
				t.Fatalf("%d pages did not come", len(want))
			}
			c.rest()
		})
	}
}

// Promise: kvengine's decode registers with a prefill of pyzmq, names its pages to
// it in SGLang's frames, believes what it counts, and hands a failure on.
func TestDecodeWorksWithAPyzmqPrefill(t *testing.T) {
	peer := newSGLangPeer(t)
	at := peer.do("hello", nil)
	c := newCluster(t)
	t.Cleanup(c.close)
	var err error
	untagged := func(_ scheduler.Role, p *process.Config) { p.Worker.Off = []scheduler.Protection{scheduler.PageTags} }
	if c.decode, err = c.start(scheduler.Decode, untagged, at.Bootstrap); err != nil {
		t.Fatal(err)
	}
	m, err := pdwire.ParseBodies(unhex(t, peer.do("receive", nil).Frames))
	reg, ok := m.(*pdwire.Registration)
	if err != nil || !ok || len(reg.KVPtrs) != 4 {
		t.Fatalf("%+v, %v", m, err)
	}
	c.await("decode knows its prefill", func() bool { return c.decode.Peers() == 1 })
	for room, status := range map[int]int{1: 200, 2: 502, 3: 502} {
		body, _ := json.Marshal(map[string]any{
			"prompt": story[room : 40+room], "max_tokens": 3, "bootstrap_room": room, "bootstrap_host": "127.0.0.1", "bootstrap_port": portOf(t, at.Bootstrap),
		})
		done := make(chan answer, 1)
		go func() { a, _ := ask(t.Context(), c.decode.URL()+"/v1/completions", "", body); done <- a }()
		frames := unhex(t, peer.do("receive", nil).Frames)
		m, err := pdwire.ParseBodies(frames)
		req, ok := m.(*pdwire.TransferRequest)
		if err != nil || !ok || len(frames) != 10 || req.Room != int64(room) || len(req.Pages) != 3 {
			t.Fatalf("room %d: %+v, %v", room, m, err)
		}
		pages := req.Pages
		if room == 3 {
			pages = pages[:1] // short: one page of three, and yet "success"
		}
		poll := "4"
		if room == 2 {
			poll = "0"
		} else {
			peer.do("transfer", map[string]any{"session": reg.Session, "bases": reg.KVPtrs, "pages": pages, "item": reg.KVItemBytes})
		}
		to := fmt.Sprintf("%s:%d", req.Host, req.Port)
		peer.do("send", map[string]any{"to": to, "frames": []string{hexOf(fmt.Sprint(room)), hexOf(poll), hexOf("0")}})
		if poll == "0" {
			peer.do("send", map[string]any{"to": to, "frames": []string{hexOf("ABORT_ACK"), hexOf(fmt.Sprint(room)), hexOf("0")}})
		}
		if a := <-done; a.status != status {
			t.Errorf("room %d: %d %s, want %d", room, a.status, a.raw, status)
		}
	}
	c.rest()
}

func hexOf(s string) string { return hex.EncodeToString([]byte(s)) }
