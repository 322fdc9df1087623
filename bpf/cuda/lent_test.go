//go:build linux && amd64

package cuda_test

import (
	"slices"
	"testing"

	"github.com/kvwitness/kvwitness/bpf/cuda"
	source "github.com/kvwitness/kvwitness/sidecar/source/cuda"
)

// lender is a watched process beside one that is not.
func lender(t *testing.T, o cuda.Options) (w *witness, p, other *process) {
	t.Helper()
	w = watching(t, o)
	p, other = w.watched(), start(t, w.dir)
	other.do("load")
	return w, p, other
}

// settles sees to it that all that was told by now is taken in.
func (w *witness) settles(p *process) {
	w.t.Helper()
	frees := w.seen[source.Free]
	p.do("free %d", p.number("alloc 1"))
	w.await("a free", func() bool { return w.seen[source.Free] == frees+1 })
}

// Promise: physical memory of a watched process that another imports is told, with whose
// it is and how much, whether it was lent by descriptor or by a handle of fabric, also
// once the lender has let go of both; and a pool. What others do among themselves is not,
// though their files have one inode, nor what a process imports of its own.
func TestMemoryThatIsLentByDescriptorIsTold(t *testing.T) {
	for _, perf := range []bool{false, true} {
		w, p, other := lender(t, cuda.Options{PerfEvents: perf})
		told := func(what string, bytes uint64) {
			t.Helper()
			w.settles(p)
			want := source.Opened{Owner: p.id(), By: other.id(), Bytes: bytes}
			if len(w.opened) != 1 || w.opened[0] != want {
				t.Errorf("%s, perf %v: told %+v, want %+v", what, perf, w.opened, want)
			}
			w.opened = nil
		}
		handle := p.number("create 65536")
		fd := other.number("take %d %d", p.PID(), p.number("share %d", handle))
		other.do("import %d", fd)
		told("memory", 65536)
		other.do("import %d", fd)
		told("the same again", 65536)

		handle = p.number("create 4096")
		own := p.number("share %d", handle)
		fd = other.number("take %d %d", p.PID(), own)
		p.do("shut %d", own)
		p.do("release %d", handle)
		other.do("import %d", fd)
		told("more that its owner has let go", 65536+4096)

		other.do("import-fabric %s", p.do("share-fabric %d", p.number("create 8192")))
		told("by fabric", 65536+4096+8192)
		other.do("import-pool %d", other.number("take %d %d", p.PID(), p.number("share-pool 77")))
		told("a pool, of which it is not known how much", 65536+4096+8192+1)

		third := start(t, w.dir)
		third.do("load")
		third.do("import %d", third.number("take %d %d", other.PID(), other.number("share %d", other.number("create 4096"))))
		p.do("import %d", p.number("share %d", p.number("create 4096")))
		w.settles(p)
		if len(w.opened) != 0 || w.Account(p.id()).Why != "" {
			t.Errorf("perf %v: told %+v; %+v", perf, w.opened, w.Account(p.id()))
		}
	}
}

// Promise: an open file whose memory another's had is nobody's: who imports what an
// unwatched process lent is not accused of what a watched one did before.
func TestAFileThatIsGoneSaysNothingOfTheNext(t *testing.T) {
	w, p, other := lender(t, cuda.Options{Options: whole})
	for range 20 {
		p.do("share-again 200")
		other.do("share-again 200")
	}
	w.settles(p)
	if len(w.opened) != 0 || w.seen[source.Lend] != 4000 {
		t.Errorf("%d lent, told %d times that it was imported", w.seen[source.Lend], len(w.opened))
	}
	if a := w.Account(p.id()); a.Why != "" || a.VRAM() != 0 || a.Allocated != a.Freed {
		t.Errorf("%+v", a)
	}
	fd := p.number("share %d", p.number("create 4096"))
	other.do("import %d", other.number("take %d %d", p.PID(), fd))
	w.settles(p)
	if !slices.Equal(w.opened, []source.Opened{{Owner: p.id(), By: other.id(), Bytes: 4096}}) {
		t.Errorf("told %+v", w.opened)
	}

	w.opened = nil
	short := w.watched()
	fd = other.number("take %d %d", short.PID(), short.number("share %d", short.number("create 4096")))
	short.Kill()
	other.do("import %d", fd)
	w.settles(p)
	if len(w.opened) != 0 {
		t.Errorf("once its owner has ended: told %+v", w.opened)
	}
}
