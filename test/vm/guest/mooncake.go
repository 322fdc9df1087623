//go:build linux && amd64

package main

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/kvwitness/kvwitness/bpf/verbs"
	source "github.com/kvwitness/kvwitness/sidecar/source/verbs"
)

// The pools of Mooncake's receiver: a region a layer.
const (
	layers    = 3
	pages     = 32
	pageBytes = 24 << 10
	// regionBytes: longer than its pages, as allocators pad them.
	regionBytes = pages*pageBytes + 4096
)

// move is bytes of one region of the sender's that go to the same region of the
// receiver's.
type move struct {
	layer       int
	from, to, n uint64 // offsets in the regions
}

func run(layer int, from, to, n uint64) move {
	return move{layer, from * pageBytes, to * pageBytes, n * pageBytes}
}

// transfers are what Mooncake is told to move, one after the other.
var transfers = []struct {
	name  string
	batch bool
	moves []move
}{
	{"contiguous", false, []move{run(0, 0, 4, 8), run(1, 0, 4, 8), run(2, 0, 4, 8)}},
	{"scattered", true, []move{
		run(0, 3, 20, 1), run(0, 9, 17, 1), run(0, 1, 30, 2), run(1, 3, 20, 1), run(1, 9, 17, 1), run(2, 31, 0, 1),
	}},
	{"straddling", true, []move{{0, 100, 23*pageBytes + pageBytes/2, pageBytes}, {1, 7, 25*pageBytes - 8, 16}, {2, 0, 31*pageBytes - 1, 2}}},
	{"retried", true, []move{run(0, 3, 20, 1), run(0, 3, 20, 1), run(1, 0, 4, 8), run(2, 31, 0, 1)}},
	{"retried", true, []move{run(0, 3, 20, 1), run(2, 31, 0, 1)}},
}

// mooncake has two of its processes move pages, and compares what was seen with what
// they were told: exactly these bytes of each region, each as often as it was told.
func mooncake(r *Result) error {
	python := os.Getenv("MOONCAKE_PYTHON")
	program := os.Getenv("MOONCAKE_PROGRAM")
	if python == "" || program == "" {
		return errors.New("MOONCAKE_PYTHON and MOONCAKE_PROGRAM are not set: see vm_test.go")
	}
	probe, err := watch(verbs.Options{})
	if err != nil {
		return err
	}
	w := &witnessed{seen: seen{r: r, probe: probe.Probe}}
	defer w.end()
	for _, side := range []*peer{&w.sender, &w.receiver} {
		if err := side.begin(probe.Probe, python, program); err != nil {
			return err
		}
	}
	for fill, side := range []*peer{&w.receiver, &w.sender} {
		if err := w.open(side, fill); err != nil {
			return err
		}
	}
	for _, t := range transfers {
		if err := w.transfer(t.name, t.batch, t.moves); err != nil {
			return err
		}
	}
	return errors.Join(w.arrived(), probe.count(r))
}

// arrived holds that Mooncake did what it was told: the sender's regions are filled
// with their number, the receiver's with zeros.
func (w *witnessed) arrived() error {
	a, err := w.tell(&w.receiver, map[string]any{"op": "digest"})
	if err != nil {
		return err
	}
	for layer := range layers {
		want := make([]byte, regionBytes)
		for _, t := range transfers {
			for _, m := range t.moves {
				if m.layer == layer {
					copy(want[m.to:m.to+m.n], bytes.Repeat([]byte{byte(layer + 1)}, int(m.n)))
				}
			}
		}
		if digest := sha256.Sum256(want); len(a.Digests) != layers || a.Digests[layer] != hex.EncodeToString(digest[:]) {
			return fmt.Errorf("region %d does not hold what was to be moved", layer)
		}
	}
	return nil
}

// witnessed is both processes and what was seen of them.
type witnessed struct {
	seen
	sender, receiver peer
}

func (w *witnessed) end() {
	for _, p := range []*peer{&w.sender, &w.receiver} {
		if p.pid() != 0 {
			p.end()
		}
	}
}

// peer is a process of Mooncake's.
type peer struct {
	program
	answers chan reply
	opened  reply
}

type reply struct {
	Code    int
	Session string
	Regions []uint64
	Digests []string
}

func (p *peer) begin(probe *verbs.Probe, python, file string) (err error) {
	out, in, err := os.Pipe()
	if err != nil {
		return err
	}
	p.answers, p.done = make(chan reply, 1), make(chan struct{})
	go func() {
		defer close(p.answers)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			var a reply
			if text, ok := strings.CutPrefix(lines.Text(), "answer "); ok && json.Unmarshal([]byte(text), &a) == nil {
				p.answers <- a
			}
		}
	}()
	return errors.Join(p.program.begin(probe, in, []string{"env", "MC_GID_INDEX=1", python, "-u", file}), in.Close())
}

// tell tells it something, and goes on to read what the probe sees until it answers.
func (w *witnessed) tell(p *peer, request map[string]any) (a reply, err error) {
	line, err := json.Marshal(request)
	if err != nil {
		return a, err
	}
	if _, err := p.in.Write(append(line, '\n')); err != nil {
		return a, err
	}
	for end := time.Now().Add(patience); time.Now().Before(end); {
		if err := w.read(50 * time.Millisecond); err != nil {
			return a, err
		}
		select {
		case a, ok := <-p.answers:
			if !ok || a.Code != 0 {
				return a, fmt.Errorf("the answer to %s is code %d: %s", line, a.Code, p.said())
			}
			return a, nil
		default:
		}
	}
	return a, fmt.Errorf("no answer to %s: %s", line, p.said())
}

func (w *witnessed) open(p *peer, fill int) (err error) {
	sizes := make([]int, layers)
	for i := range sizes {
		sizes[i] = regionBytes
	}
	p.opened, err = w.tell(p, map[string]any{"op": "open", "host": host, "device": "rxe0", "regions": sizes, "fill": fill})
	return err
}

// span is bytes of one region.
type span struct {
	layer    int
	from, to uint64
}

func (w *witnessed) transfer(name string, batch bool, moves []move) error {
	target, from, session := w.receiver.opened.Regions, w.sender.opened.Regions, w.receiver.opened.Session
	w.extents = nil
	told := make([][3]uint64, len(moves))
	var want []span
	for i, m := range moves {
		told[i] = [3]uint64{from[m.layer] + m.from, target[m.layer] + m.to, m.n}
		want = append(want, span{m.layer, m.to, m.to + m.n})
	}
	if _, err := w.tell(&w.sender, map[string]any{"op": "write", "target": session, "moves": told, "batch": batch}); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if err := w.read(500 * time.Millisecond); err != nil {
		return err
	}
	got, err := w.spans(target)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if want = merged(want); !slices.Equal(got, want) {
		return fmt.Errorf("%s: seen %v, want %v", name, got, want)
	}
	return nil
}

// spans are the bytes that were seen written, by region of the receiver.
func (w *witnessed) spans(target []uint64) (out []span, err error) {
	for _, e := range w.extents {
		i := slices.IndexFunc(target, func(base uint64) bool { return e.Remote >= base && e.Remote < base+regionBytes })
		if i < 0 || e.Op != source.OpWrite {
			return nil, fmt.Errorf("seen %+v, in none of the regions at %x", e, target)
		}
		out = append(out, span{i, e.Remote - target[i], e.Remote - target[i] + e.Bytes})
	}
	return merged(out), nil
}

// merged joins what is contiguous. What overlaps stays apart: it was written twice.
func merged(all []span) (out []span) {
	slices.SortFunc(all, func(a, b span) int {
		return cmp.Or(a.layer-b.layer, cmp.Compare(a.from, b.from), cmp.Compare(a.to, b.to))
	})
	for _, s := range all {
		if n := len(out) - 1; n >= 0 && out[n].layer == s.layer && out[n].to == s.from {
			out[n].to = s.to
			continue
		}
		out = append(out, s)
	}
	return out
}
