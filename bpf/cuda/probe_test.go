//go:build linux && amd64

package cuda_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kvwitness/kvwitness/bpf/cuda"
	"github.com/kvwitness/kvwitness/bpf/load"
	source "github.com/kvwitness/kvwitness/sidecar/source/cuda"
	"github.com/kvwitness/kvwitness/test/commanded"
	driver "github.com/kvwitness/kvwitness/test/cuda"
)

const patience = time.Minute

// built is where the stand-in was compiled.
var built = sync.OnceValues(func() (dir string, err error) {
	if dir, err = os.MkdirTemp("", "cuda"); err != nil {
		return "", err
	}
	return dir, driver.Build(dir)
})

func TestMain(m *testing.M) {
	code := m.Run()
	if dir, _ := built(); dir != "" {
		_ = os.RemoveAll(dir)
	}
	os.Exit(code)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// witness is a probe, and the books of what it told.
type witness struct {
	t testing.TB
	*cuda.Probe
	*source.Books
	dir    string
	seen   map[source.Kind]int
	opened []source.Opened
	copies []source.Record
	lost   uint64 // records that the books know of
}

func watching(t testing.TB, o cuda.Options) *witness {
	t.Helper()
	dir, err := built()
	must(t, err)
	p, err := cuda.Open(o)
	if err != nil {
		t.Fatalf("%v (the tests of the probe need root)", err)
	}
	t.Cleanup(func() { must(t, p.Close()) })
	return &witness{t: t, Probe: p, Books: source.NewBooks(), dir: dir, seen: map[source.Kind]int{}}
}

// process is a program of the stand-in.
type process struct {
	t testing.TB
	*commanded.Process
}

func start(t testing.TB, dir string) *process {
	t.Helper()
	return &process{t, commanded.Start(t, nil, filepath.Join(dir, driver.Caller))}
}

func (p *process) do(format string, args ...any) string {
	p.t.Helper()
	return p.Do(p.t, format, args...)
}

// number is what a process says, as a number.
func (p *process) number(format string, args ...any) (n uint64) {
	p.t.Helper()
	_, err := fmt.Sscan(p.do(format, args...), &n)
	must(p.t, err)
	return n
}

func (p *process) id() uint32 { return uint32(p.PID()) }

// watched starts a program that is watched from its first call of the driver on.
func (w *witness) watched() *process {
	w.t.Helper()
	_, err := w.AttachLibrary(filepath.Join(w.dir, driver.Library))
	must(w.t, err)
	p := start(w.t, w.dir)
	must(w.t, w.Targets().Put(p.id(), uint64(1)))
	w.Watched(p.id())
	w.Attached(p.id(), "")
	p.do("load")
	return p
}

// drain takes in what is there.
func (w *witness) drain() {
	w.t.Helper()
	n, err := w.Counters()
	must(w.t, err)
	if lost := n[cuda.RecordsLost] + n[cuda.LostCalls]; lost > w.lost {
		w.lost = lost
		w.Lost("records were lost")
	}
	must(w.t, w.Drain(func(b []byte) {
		r, err := source.Parse(b)
		must(w.t, err)
		w.seen[r.Kind]++
		if r.Copies() {
			w.copies = append(w.copies, r)
		}
		if o := w.Take(&r); o != nil {
			w.opened = append(w.opened, *o)
		}
	}))
}

// await drains until something holds.
func (w *witness) await(what string, holds func() bool) {
	w.t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		if w.drain(); holds() {
			return
		}
		if time.Now().After(end) {
			w.t.Fatalf("%s did not come about: %v", what, w.seen)
		}
	}
}

// whole is a ring that holds all that a test says.
var whole = load.Options{RingBytes: 16 << 20}

// Promise: what a process allocates and frees adds up to the byte, over 100,000 random
// calls of 8 threads that hand the same addresses to each other, by names and by
// addresses, through functions that call each other; with links of many places and with
// events of perf.
func TestAllocationsAndFreesAddUpToTheByte(t *testing.T) {
	const seed, calls = 1, 100_000
	for _, perf := range []bool{false, true} {
		w := watching(t, cuda.Options{Options: whole, PerfEvents: perf})
		p := w.watched()
		ended := make(chan struct{})
		go func() { defer close(ended); p.do("random %d 8 %d", calls, seed) }()
		for done := false; !done; {
			w.drain()
			select {
			case <-ended:
				done = true
			case <-time.After(5 * time.Millisecond):
			}
		}
		var made, allocated, freed uint64
		_, err := fmt.Sscan(p.do("books"), &made, &allocated, &freed)
		must(t, err)
		w.drain()
		a := w.Account(p.id())
		if a.Why != "" || a.Allocated != allocated || a.Freed != freed || a.VRAM() != allocated-freed || a.Calls < made || made < calls {
			t.Errorf("seed %d, perf %v: %+v; the process made %d calls, allocated %d and freed %d", seed, perf, a, made, allocated, freed)
		}
		if n, err := w.Counters(); err != nil || n[cuda.RecordsLost] != 0 || n[cuda.RecordsSent] != a.Calls {
			t.Errorf("counters %v, %v, of %d calls", n, err, a.Calls)
		}
		t.Logf("%d calls, %d records, %d bytes held of %d", made, a.Calls, a.VRAM(), allocated)
	}
}

// Promise: a record for which there was no room makes a process unknown, and it stays so.
func TestALostRecordMakesBlind(t *testing.T) {
	w := watching(t, cuda.Options{Options: load.Options{RingBytes: os.Getpagesize()}})
	p := w.watched()
	p.do("random 2000 2 1") // nobody drains
	w.drain()
	if a := w.Account(p.id()); a.Why != "records were lost" {
		t.Errorf("%+v", a)
	}
	p.do("alloc 4096")
	w.drain()
	if a := w.Account(p.id()); a.Why == "" {
		t.Errorf("it is known again: %+v", a)
	}
}

// Promise: a name that leads to a function which another name leads to is attached to
// once, and a function that others call is told of each of them once.
func TestEachCallIsToldOnce(t *testing.T) {
	w := watching(t, cuda.Options{})
	p := w.watched()
	p.do("free %d", p.number("alloc 4096"))
	w.await("two calls", func() bool { return w.Account(p.id()).Calls >= 2 })
	if a := w.Account(p.id()); a.Calls != 2 || w.seen[source.Alloc] != 1 || w.seen[source.Free] != 1 || a.Allocated != 4096 || a.Freed != 4096 || a.Why != "" {
		t.Errorf("%+v: %v", a, w.seen)
	}
}

// Promise: physical memory is held as long as a handle or a mapping refers to it, also
// one that was asked for again, and one call may unmap several.
func TestPhysicalMemoryLivesAsLongAsItIsReferredTo(t *testing.T) {
	w := watching(t, cuda.Options{})
	p := w.watched()
	const pieces, bytes = 3, 1 << 20
	at := p.number("map %d %d", pieces, bytes)
	held := func(n uint64) func() bool {
		return func() bool { return w.Account(p.id()).Held[source.Physical] == n }
	}
	w.await("three pieces", held(pieces*bytes))
	if n := w.From(p.id(), at+bytes/2); n != pieces*bytes-bytes/2 {
		t.Errorf("%d bytes from the middle of the first piece on", n)
	}
	last := at + (pieces-1)*bytes
	handle := p.number("retain %d", last)
	p.do("unmap %d %d", at, pieces*bytes)
	w.await("the last piece", held(bytes))
	p.do("release %d", handle)
	w.await("nothing", held(0))
	if a := w.Account(p.id()); a.Why != "" || w.From(p.id(), at) != 0 {
		t.Errorf("%+v", a)
	}
}

// Promise: memory of a watched process that another opens is told, with whose it is, also
// where that other is not watched; what others do among themselves is not.
func TestMemoryThatAnotherProcessOpensIsTold(t *testing.T) {
	w := watching(t, cuda.Options{})
	p := w.watched()
	other := start(t, w.dir)
	other.do("load")
	other.do("free %d", other.number("alloc 4096"))
	base := p.number("alloc 65536")
	handle := p.do("lend %d", base)
	at := other.number("open %s", handle)
	w.await("an opening", func() bool { return len(w.opened) == 1 })
	other.do("close %d", at)
	w.await("its end", func() bool { return len(w.opened) == 2 })
	forged := strings.Replace(handle, handle[:4], "ffff", 1)
	other.do("close %d", other.number("open %s", forged))
	p.do("free %d", base)
	w.await("the free", func() bool { return w.seen[source.Free] == 1 })
	want := source.Opened{Owner: p.id(), By: other.id(), Bytes: 65536}
	if w.opened[0] != want || w.opened[1].Bytes != 0 || len(w.opened) != 2 || w.seen[source.Open] != 1 || w.seen[source.Alloc] != 1 {
		t.Errorf("opened %+v, want %+v; %v", w.opened, want, w.seen)
	}
}

// Promise: what is not followed makes a process unknown, with the reason; the last
// release of a context is the end of what is in it, and others are not.
func TestWhatIsNotFollowedMakesBlind(t *testing.T) {
	w := watching(t, cuda.Options{})
	for command, why := range map[string]string{"old": "not followed", "destroy": "ended a context"} {
		p := w.watched()
		p.do("alloc 4096")
		p.do("retained")
		p.do("retained")
		p.do("released")
		w.await("four calls", func() bool { return w.Account(p.id()).Calls == 4 })
		if a := w.Account(p.id()); a.Why != "" {
			t.Errorf("a context that is still used makes it unknown: %+v", a)
		}
		p.do("%s", command)
		w.await(command, func() bool { return strings.Contains(w.Account(p.id()).Why, why) })
	}
}

// Promise: a process that had the driver before it was watched is not known, though what
// it does now is seen.
func TestAProcessThatWasThereBeforeIsNotKnown(t *testing.T) {
	w := watching(t, cuda.Options{})
	p := start(t, w.dir)
	if _, err := w.Watch(p.PID()); err == nil {
		t.Error("a process without the driver is watched")
	}
	p.do("load")
	base := p.number("alloc 4096") // unseen
	since, err := w.Watch(p.PID())
	must(t, err)
	must(t, w.Targets().Put(p.id(), uint64(1)))
	w.Watched(p.id())
	if since == 0 {
		t.Error("it is not said since when it is watched")
	}
	p.do("alloc 8192")
	w.await("what it does now", func() bool { return w.Account(p.id()).VRAM() == 8192 })
	p.do("free %d", base)
	w.await("a free", func() bool { return w.seen[source.Free] == 1 })
	if a := w.Account(p.id()); a.Why == "" {
		t.Errorf("%+v", a)
	}
}

// Promise: nothing is attached to a driver whose version is denied, or cannot be told
// while some are; and to what is called libcuda and is something else.
func TestADeniedDriverIsLetAlone(t *testing.T) {
	dir := t.TempDir()
	must(t, driver.Build(dir))
	plain, named := filepath.Join(dir, driver.Library), filepath.Join(dir, "libcuda.so.550.54.15")
	text, err := os.ReadFile(plain)
	must(t, err)
	must(t, os.WriteFile(named, text, 0o600))
	other := filepath.Join(dir, "libcuda.so.1.1")
	must(t, os.Link("/bin/true", other))
	w := watching(t, cuda.Options{Deny: []string{"550.*", "999"}})
	for path, want := range map[string]string{plain: "denied: it cannot be told", named: "denied: 550.54.15 is 550.*", other: "no such symbol"} {
		if _, err := w.AttachLibrary(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", path, err, want)
		}
	}
	w = watching(t, cuda.Options{Deny: []string{"999"}})
	_, err = w.AttachLibrary(named)
	must(t, err)
}
