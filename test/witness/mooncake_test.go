package witness

import (
	"slices"
	"testing"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/sidecar/finding"
	"github.com/kvwitness/kvwitness/sidecar/source/proven"
	"github.com/kvwitness/kvwitness/test/witness/couple"
)

// The memory of both halves.
const (
	regions   = couple.Regions
	pages     = couple.Pages
	pageBytes = couple.PageBytes
)

// pair is a prefill and a decode, both Python with Mooncake over TCP.
type pair struct {
	*couple.Couple
	t testing.TB
	w *witness
}

func newPair(t *testing.T) *pair {
	t.Helper()
	c, err := couple.Open(startHalf(t).Half, startHalf(t).Half, couple.Transport{Host: "127.0.0.1", Protocol: "tcp"})
	must(t, err)
	return &pair{c, t, nil}
}

func (c *pair) watch() {
	c.t.Helper()
	c.w = watch(c.t, proven.Layout{Pages: pages, PageTokens: 16}, "command=pd_peer.py")
}

// play is one handoff, and its verdict.
type play struct {
	name string
	couple.Handoff
	verdict finding.Outcome
}

// plays are handoffs, one after the other.
func (c *pair) plays() []play {
	scattered := []int{31, 0, 17, 2, 29, 11, 12, 20}
	whole := func(list ...int) couple.Handoff { return couple.Handoff{Named: list, Moves: c.Whole(list...)} }
	return []play{
		{"the first, which proves the path", whole(eight...), finding.Unwitnessed},
		{"contiguous", whole(eight...), finding.Clean},
		{"scattered", whole(scattered...), finding.Clean},
		{"straddling", couple.Handoff{Named: eight, Moves: c.Straddling(3, 8)}, finding.Clean},
		{"retried", couple.Handoff{Named: eight, Moves: append(c.Whole(eight...), c.Whole(eight[2:5]...)...)}, finding.Clean},
		{"after its memory was registered anew", couple.Handoff{Named: eight, Moves: c.Whole(eight...), Renewed: true}, finding.Clean},
		{"one of eight", couple.Handoff{Named: eight, Moves: c.Whole(eight[0])}, finding.Violated},
		{"all but one region of one page", couple.Handoff{Named: scattered, Moves: c.Whole(scattered...)[1:]}, finding.Violated},
		{"after that", whole(scattered...), finding.Clean},
	}
}

// handOver plays all of them, and returns their rooms in order.
func (c *pair) handOver(by couple.Play) (rooms []string) {
	c.t.Helper()
	for _, p := range c.plays() {
		room, err := by(p.Handoff)
		must(c.t, err)
		rooms = append(rooms, room)
	}
	return rooms
}

// judge compares what was found with what was played; rooms are in order.
func (c *pair) judge(rooms []string) {
	c.t.Helper()
	w := c.w
	w.await("every completion", func() bool {
		return w.count(func(f *lifecycle.Fact) bool { return f.Ev == lifecycle.TransferCompleted }) == len(rooms)
	})
	var wrote uint64
	for _, h := range c.plays() {
		for _, m := range h.Moves {
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
	for i, h := range c.plays() {
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
	c := newPair(t)
	c.watch()
	_, by, err := c.SGLang()
	must(t, err)
	c.judge(c.handOver(by))
}

// Promise: the same with the messages of vLLM's Mooncake connector; and since each
// of them says all that is needed, also if the witness comes when everything runs.
func TestMooncakesHandoffsInVLLMsMessagesAreWitnessed(t *testing.T) {
	for name, late := range map[string]bool{"from the start": false, "from the middle": true} {
		t.Run(name, func(t *testing.T) { playVLLM(t, late) })
	}
}

func playVLLM(t *testing.T, late bool) {
	c := newPair(t)
	if !late {
		c.watch()
	}
	_, by, err := c.VLLM()
	must(t, err)
	if late {
		_, err := by(couple.Handoff{Named: []int{1, 2}, Moves: c.Whole(1, 2)})
		must(t, err)
		c.watch()
	}
	c.judge(c.handOver(by))
}
