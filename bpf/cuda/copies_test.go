//go:build linux && amd64

package cuda_test

import (
	"os"
	"testing"

	"github.com/kvwitness/kvwitness/bpf/cuda"
	"github.com/kvwitness/kvwitness/bpf/load"
	source "github.com/kvwitness/kvwitness/sidecar/source/cuda"
)

// Promise: where that is asked for, copies that succeed are told, from where to where and
// how much, whichever function makes them and whatever that calls; and what is not
// followed as that. Else nothing is attached to them. The books know nothing of copies.
func TestCopiesAreToldWhereThatIsAskedFor(t *testing.T) {
	for _, asked := range []bool{false, true} {
		w := watching(t, cuda.Options{Copies: asked})
		p, other := w.watched(), start(t, w.dir)
		other.do("load")
		other.do("copy 1 2 3")
		for _, command := range []string{"copy 4096 8192 10", "copy-async 4097 8193 11", "copy-in 4098 8194 12", "copy-peer 4099 8195 13", "copy-2d", "copy-wrong"} {
			p.do("%s", command)
		}
		w.settles(p)
		var copies source.Copies
		var all []source.Record
		for _, r := range w.copies {
			if copies.New(&r) {
				all = append(all, source.Record{Base: r.Base, Other: r.Other, Bytes: r.Bytes})
			}
		}
		want := []source.Record{{Base: 4096, Other: 8192, Bytes: 10}, {Base: 4097, Other: 8193, Bytes: 11}, {Base: 4098, Other: 8194, Bytes: 12}, {Base: 4099, Other: 8195, Bytes: 13}, {}}
		if !asked {
			want = nil
		}
		if len(all) != len(want) {
			t.Fatalf("asked %v: %+v", asked, all)
		}
		for n := range want {
			if all[n] != want[n] {
				t.Errorf("copy %d: %+v, want %+v", n, all[n], want[n])
			}
		}
		if a := w.Account(p.id()); a.Calls != 2 || a.Why != "" || a.VRAM() != 0 {
			t.Errorf("%+v", a)
		}
	}
}

// Promise: copies for which there is no room are counted, and take it from nothing else:
// however many there are, what a process holds stays known.
func TestCopiesLeaveRoomForTheRest(t *testing.T) {
	const copies, calls = 10_000, 100
	w := watching(t, cuda.Options{Copies: true, Options: load.Options{RingBytes: 8 * os.Getpagesize()}})
	p := w.watched()
	p.do("copies %d", copies) // nobody drains
	for range calls {
		p.do("alloc 4096")
	}
	w.drain()
	n, err := w.Counters()
	must(t, err)
	if told := uint64(len(w.copies)); told == 0 || n[cuda.LostCopies] == 0 || told+n[cuda.LostCopies] != copies {
		t.Errorf("%d told and %d lost of %d", told, n[cuda.LostCopies], copies)
	}
	if a := w.Account(p.id()); a.Why != "" || a.VRAM() != calls*4096 || n[cuda.RecordsLost] != 0 {
		t.Errorf("%+v, counters %v", a, n)
	}
}
