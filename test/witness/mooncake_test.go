package witness

import (
	"fmt"
	"slices"
	"testing"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
	wire "github.com/kvwitness/kvwitness/engine/pdwire"
	"github.com/kvwitness/kvwitness/sidecar/finding"
	"github.com/kvwitness/kvwitness/sidecar/source/proven"
)

// The memory of both halves: regions one after the other.
const (
	regions   = 4
	pages     = 32
	pageBytes = 4096
)

// couple is a prefill and a decode, both Python with Mooncake.
type couple struct {
	t               testing.TB
	w               *witness
	prefill, decode *half
	p, d            answer // what Mooncake opened
}

func newCouple(t *testing.T) *couple {
	t.Helper()
	c := &couple{t: t}
	c.prefill, c.decode = startHalf(t), startHalf(t)
	size := map[string]any{"bytes": regions * pages * pageBytes}
	c.p, c.d = c.prefill.do("open", size), c.decode.do("open", size)
	return c
}

func (c *couple) watch() {
	c.t.Helper()
	c.w = watch(c.t, proven.Layout{Pages: pages, PageTokens: 16}, "command=pd_peer.py")
}

func (c *couple) bases() (out []uint64) {
	for i := range regions {
		out = append(out, c.d.Address+uint64(i*pages*pageBytes))
	}
	return out
}

// whole moves each page of each region at once.
func (c *couple) whole(list ...int) (moves [][3]uint64) {
	for _, base := range c.bases() {
		for _, p := range list {
			moves = append(moves, [3]uint64{uint64(p) * pageBytes, base + uint64(p)*pageBytes, pageBytes})
		}
	}
	return moves
}

// straddling moves a run of pages in pieces that end within pages.
func (c *couple) straddling(first, count int) (moves [][3]uint64) {
	const piece = 3000
	for _, base := range c.bases() {
		for at := first * pageBytes; at < (first+count)*pageBytes; at += piece {
			n := min(piece, (first+count)*pageBytes-at)
			moves = append(moves, [3]uint64{uint64(at), base + uint64(at), uint64(n)})
		}
	}
	return moves
}

func (c *couple) write(moves [][3]uint64) {
	c.t.Helper()
	c.prefill.do("write", map[string]any{"target": c.d.Session, "moves": moves})
}

// handoffs are played one after the other: what decode names, and what Mooncake
// is told to write of it.
func (c *couple) handoffs() []struct {
	name    string
	named   []int
	moves   [][3]uint64
	verdict finding.Outcome
} {
	eight := []int{3, 4, 5, 6, 7, 8, 9, 10}
	scattered := []int{31, 0, 17, 2, 29, 11, 12, 20}
	return []struct {
		name    string
		named   []int
		moves   [][3]uint64
		verdict finding.Outcome
	}{
		{"the first, which proves the path", eight, c.whole(eight...), finding.Unwitnessed},
		{"contiguous", eight, c.whole(eight...), finding.Clean},
		{"scattered", scattered, c.whole(scattered...), finding.Clean},
		{"straddling", eight, c.straddling(3, 8), finding.Clean},
		{"retried", eight, append(c.whole(eight...), c.whole(eight[2:5]...)...), finding.Clean},
		{"one of eight", eight, c.whole(eight[0]), finding.Violated},
		{"all but one region of one page", scattered, c.whole(scattered...)[1:], finding.Violated},
		{"after that", scattered, c.whole(scattered...), finding.Clean},
	}
}

// judge compares what was found with what was played; rooms are in order.
func (c *couple) judge(rooms []string) {
	c.t.Helper()
	w := c.w
	w.await("every completion", func() bool {
		return w.count(func(f *lifecycle.Fact) bool { return f.Ev == lifecycle.TransferCompleted }) == len(rooms)
	})
	var wrote uint64
	for _, h := range c.handoffs() {
		for _, m := range h.moves {
			wrote += m[2]
		}
	}
	w.await("every byte", func() bool {
		var seen uint64
		for _, f := range w.facts {
			if f.Ev == lifecycle.BytesMoved {
				seen += f.Bytes
			}
		}
		if seen > wrote {
			c.t.Fatalf("%d bytes seen, %d written", seen, wrote)
		}
		return seen == wrote
	})
	verdicts, kinds := w.over(), w.kinds()
	for i, h := range c.handoffs() {
		v := verdicts[rooms[i]]
		if v.Verdict != h.verdict {
			c.t.Errorf("%s: %s (%s), want %s", h.name, v.Verdict, v.Why, h.verdict)
		}
		want := []finding.Kind(nil)
		if h.verdict == finding.Violated {
			want = []finding.Kind{finding.ShortHandoff}
		}
		if !slices.Equal(kinds[rooms[i]], want) {
			c.t.Errorf("%s: found %v, want %v", h.name, kinds[rooms[i]], want)
		}
	}
	if len(w.problems) > 0 {
		c.t.Errorf("problems: %q", w.problems)
	}
}

// Promise: unmodified Mooncake moves pages between two processes that speak
// SGLang's frames by pyzmq, and each handoff is what it was: nothing of it was
// said by an engine's own events.
func TestMooncakesHandoffsInSGLangsFramesAreWitnessed(t *testing.T) {
	c := newCouple(t)
	c.watch()
	to, from := c.prefill.do("bind", map[string]any{"kind": "PULL"}), c.decode.do("bind", map[string]any{"kind": "PULL"})
	c.decode.do("connect", map[string]any{"kind": "PUSH", "to": fmt.Sprintf("127.0.0.1:%d", to.Port)})
	c.prefill.do("connect", map[string]any{"kind": "PUSH", "to": fmt.Sprintf("127.0.0.1:%d", from.Port)})
	self := wire.Address{Host: "127.0.0.1", Port: uint16(from.Port)}
	say := func(from, to *half, m wire.Message) {
		t.Helper()
		from.do("send", frames(m.Frames()))
		if got := to.do("recv", nil); got.Frames != len(m.Frames()) {
			t.Fatalf("%d frames arrived of %d", got.Frames, len(m.Frames()))
		}
	}
	say(c.decode, c.prefill, &wire.Registration{Address: self, Session: c.d.Session, KVPtrs: c.bases(), KVItemBytes: pageBytes, AttnTPSize: 1, DCPSize: 1})
	var rooms []string
	for i, h := range c.handoffs() {
		room := int64(1000 + i)
		rooms = append(rooms, fmt.Sprint(room))
		request := &wire.TransferRequest{Room: room, Address: self, Session: c.d.Session, AuxIndex: 1, RequiredDst: 1}
		for _, p := range h.named {
			request.Pages = append(request.Pages, int32(p))
		}
		say(c.decode, c.prefill, request)
		c.write(h.moves)
		c.prefill.do("send", frames([][]byte{[]byte("AUX_DATA"), []byte(rooms[i]), []byte("0"), []byte("1"), {0, 0, 0, 3}, []byte("abc")}))
		c.decode.do("recv", nil)
		say(c.prefill, c.decode, &wire.Status{Room: room, Status: wire.StatusSuccess})
	}
	c.judge(rooms)
}

// Promise: the same with the messages of vLLM's Mooncake connector; and since each
// of them says all that is needed, also if the witness comes when everything runs.
func TestMooncakesHandoffsInVLLMsMessagesAreWitnessed(t *testing.T) {
	for name, late := range map[string]bool{"from the start": false, "from the middle": true} {
		t.Run(name, func(t *testing.T) { playVLLM(t, late) })
	}
}

func playVLLM(t *testing.T, late bool) {
	c := newCouple(t)
	if !late {
		c.watch()
	}
	at := c.prefill.do("bind", map[string]any{"kind": "ROUTER"})
	c.decode.do("connect", map[string]any{"kind": "DEALER", "to": fmt.Sprintf("127.0.0.1:%d", at.Port)})
	var port int
	_, err := fmt.Sscanf(c.d.Session, "127.0.0.1:%d", &port)
	must(t, err)
	lengths := []int{pageBytes, pageBytes, pageBytes, pageBytes}
	play := func(id string, named []int, moves [][3]uint64) {
		c.decode.do("map", map[string]any{"value": map[string]any{
			"remote_hostname": "127.0.0.1", "remote_port": port, "remote_tp_size": 1, "remote_tp_rank": 0,
			"req_blocks":          map[string]any{id: []any{"transfer-" + id, [][]int{named}}},
			"kv_caches_base_addr": c.bases(), "block_lens": lengths, "kv_block_lens": lengths,
		}})
		c.prefill.do("recv", nil)
		c.write(moves)
		c.prefill.do("map", map[string]any{"value": map[string]any{"status": 0, "ok_reqs": []string{id}}})
		c.decode.do("recv", map[string]any{"outward": true})
	}
	if late {
		play("before", []int{1, 2}, c.whole(1, 2))
		c.watch()
	}
	var rooms []string
	for i, h := range c.handoffs() {
		rooms = append(rooms, fmt.Sprintf("request-%d", i))
		play(rooms[i], h.named, h.moves)
	}
	c.judge(rooms)
}
