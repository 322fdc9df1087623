package proven

import (
	"testing"

	"github.com/kvwitness/kvwitness/sidecar/probe"
	"github.com/kvwitness/kvwitness/sidecar/source/cuda"
)

// copies is a copy by a call of the CUDA driver.
func (w *world) copies(process uint32, to, from, bytes uint64) {
	w.t.Helper()
	w.calls(cuda.Record{PID: process, Kind: cuda.Copy, Base: to, Other: from, Bytes: bytes})
}

// Promise: of a copy those bytes are counted that lie in pools of the process that made
// it, by direction, whatever else it copies; and of other processes, at the same
// addresses, none.
func TestCopiesThatTouchAPoolAreCounted(t *testing.T) {
	const elsewhere, end = 1 << 50, base + 2*pages*stride
	w := watchedFromItsStart(t)
	w.watches(prefillProcess)
	w.copies(decodeProcess, base, elsewhere, 1) // nobody knows of a pool yet
	w.register(decodeSession)
	w.copies(decodeProcess, base+1, elsewhere, 10)
	w.copies(decodeProcess, elsewhere, end-100, 200) // 100 of them
	w.copies(decodeProcess, end-10, base, 50)        // 10 within, 40 out
	w.copies(decodeProcess, end, base-1000, 1000)    // beside it, on both sides
	w.copies(decodeProcess, elsewhere, elsewhere+1, 1<<62)
	w.copies(prefillProcess, base, elsewhere, 1000)
	w.mark()
	if got, want := w.Copied()[decodeName], (Copied{Into: 10, OutOf: 140, Within: 10}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if s := w.Stats(); s.Copies != 7 || s.Uncounted != 0 {
		t.Errorf("%d copies, %d uncounted", s.Copies, s.Uncounted)
	}
	w.calls(cuda.Record{PID: decodeProcess, Kind: cuda.CopyUnfollowed})
	w.mark()
	if s := w.Stats(); s.Uncounted != 1 {
		t.Errorf("%d uncounted", s.Uncounted)
	}
	must(t, w.Take(probe.Process, (&probe.Seen{T: w.tick(), PID: decodeProcess, Ended: true}).Append(nil)))
	w.mark()
	if _, there := w.Copied()[decodeName]; there {
		t.Error("who has ended has copied")
	}
}

// Promise: of a pool whose end is guessed nothing is counted, and that is said, until its
// instance says where each of its regions ends; then no byte beyond.
func TestCopiesOfAPoolWhoseSizeIsNotKnownAreNotCounted(t *testing.T) {
	w := watchedFromItsStart(t)
	w.cfg.Known = func(string) Layout { return Layout{} }
	told := map[uint64]uint64{}
	w.cfg.Extent = func(inst string, base uint64) (uint64, bool) { return told[base], told[base] > 0 && inst == decodeName }
	w.register(decodeSession)
	for n, at := range []uint64{base, base + pages*stride} {
		w.copies(decodeProcess, base, 1<<50, 10)
		w.mark()
		if got := w.Copied()[decodeName]; got != (Copied{}) || w.Stats().Uncounted != uint64(n+1) {
			t.Errorf("%+v, %d uncounted", got, w.Stats().Uncounted)
		}
		told[at] = 8
	}
	w.copies(decodeProcess, 1<<50, base, 10)
	w.mark()
	if got, want := w.Copied()[decodeName], (Copied{OutOf: 8}); got != want || w.Stats().Uncounted != 2 {
		t.Errorf("%+v, want %+v; %d uncounted", got, want, w.Stats().Uncounted)
	}
}
