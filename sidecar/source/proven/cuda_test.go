package proven

import (
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/sidecar/probe"
	"github.com/kvwitness/kvwitness/sidecar/source/cuda"
	"github.com/kvwitness/kvwitness/sidecar/source/verbs"
)

const strangerProcess = 33

// watchedFromItsStart is a world with a process of which all calls of the CUDA driver
// are seen.
func watchedFromItsStart(t testing.TB) *world {
	t.Helper()
	w := newWorld(t)
	w.watches(decodeProcess)
	w.driver(decodeProcess, "")
	return w
}

func (w *world) watches(process uint32) {
	w.t.Helper()
	must(w.t, w.Take(probe.Process, (&probe.Seen{T: w.tick(), PID: process}).Append(nil)))
}

// driver tells whether all calls of a process are seen, or why not.
func (w *world) driver(process uint32, why string) {
	w.t.Helper()
	must(w.t, w.Take(probe.CUDASight, (&probe.Attached{T: w.tick(), PID: process, Seen: why == "", Reason: why}).Append(nil)))
}

// calls is a call of the CUDA driver, and returns when it returned.
func (w *world) calls(r cuda.Record) int64 {
	w.t.Helper()
	r.Entered, r.T = w.tick(), w.tick()
	order := binary.NativeEndian
	b := order.AppendUint64(nil, uint64(r.T))
	b = order.AppendUint32(order.AppendUint32(b, r.PID), r.PID)
	b = order.AppendUint64(b, uint64(r.Kind)) // no flags, no entries
	for _, word := range []uint64{uint64(r.Entered), r.Base, r.Bytes, r.Other, uint64(r.Owner)} {
		b = order.AppendUint64(b, word)
	}
	must(w.t, w.Take(probe.CUDA, b))
	return r.T
}

func (w *world) allocates(at, bytes uint64) {
	w.t.Helper()
	w.calls(cuda.Record{PID: decodeProcess, Kind: cuda.Alloc, Base: at, Bytes: bytes})
}

// registers is memory that a process registers by a file descriptor, or without one.
func (w *world) registers(mr, at, bytes uint64, byDescriptor uint32) {
	w.t.Helper()
	w.verbsRecord(decodeProcess, verbs.KindRegion, 0, 0, mr, at, bytes, uint32(7), uint32(8), byDescriptor, uint32(0))
}

// driverSaid are the facts of the CUDA driver, in short.
func (w *world) driverSaid() string {
	w.t.Helper()
	w.mark()
	var out []string
	for _, f := range w.facts {
		switch {
		case f.Src != lifecycle.CUDA:
		case f.Ev == lifecycle.VRAMUsage:
			out = append(out, fmt.Sprintf("%s: %d has %d open", f.Inst, f.VRAM.PID, f.Bytes))
		default:
			out = append(out, fmt.Sprintf("%s: %d given at %#x", f.Inst, f.Bytes, f.Base))
		}
	}
	w.facts = nil
	return strings.Join(out, "; ")
}

func (w *world) expectDriver(what, want string) {
	w.t.Helper()
	if got := w.driverSaid(); got != want {
		w.t.Errorf("%s: said\n\t%s\nwant\n\t%s", what, got, want)
	}
}

// Promise: of a pool's regions it is told, once, how much the driver gave from where each
// begins, as soon as it is known whose pool it is and that all is seen.
func TestAPoolIsComparedWithWhatTheDriverGave(t *testing.T) {
	first, second := uint64(base), uint64(base+pages*stride)
	both := fmt.Sprintf("%s: %d given at %#x; %s: %d given at %#x", decodeName, 2*pages*stride, first, decodeName, pages*stride, second)
	w := watchedFromItsStart(t)
	w.allocates(first, pages*stride)
	w.allocates(second, pages*stride)
	w.register(decodeSession)
	w.expectDriver("a pool within", both)
	w.calls(cuda.Record{PID: decodeProcess, Kind: cuda.Free, Base: second})
	w.register(decodeSession)
	w.expectDriver("it sleeps", "")

	w = watchedFromItsStart(t)
	w.allocates(first, pages*stride-1)
	w.register(decodeSession)
	w.expectDriver("a pool outside", fmt.Sprintf("%s: %d given at %#x; %s: 0 given at %#x", decodeName, pages*stride-1, first, decodeName, second))

	w = watchedFromItsStart(t)
	w.allocates(1<<30, pages*stride)
	w.register(decodeSession)
	w.expectDriver("a pool in host memory", "")

	w = newWorld(t)
	w.watches(decodeProcess)
	w.allocates(first, 2*pages*stride)
	w.register(decodeSession)
	w.expectDriver("before it is known that all is seen", "")
	w.driver(decodeProcess, "")
	w.expectDriver("once it is", both)
}

// Promise: memory that is registered by a file descriptor, and so is a GPU's, is compared
// with what the driver had given then; of other memory it is not known where it lies.
func TestRegisteredMemoryIsComparedWithWhatTheDriverGave(t *testing.T) {
	const within, outside = 1 << 30, 1 << 31
	w := watchedFromItsStart(t)
	w.allocates(within, 8192)
	w.registers(1, within, 8192, 1)
	w.registers(2, outside, 4096, 1)
	w.registers(3, outside+1<<20, 4096, 0)
	w.calls(cuda.Record{PID: decodeProcess, Kind: cuda.Free, Base: within})
	w.expectDriver("nobody knows whose it is", "")
	w.register(decodeSession)
	got := w.driverSaid()
	for _, want := range []string{fmt.Sprintf("8192 given at %#x", within), fmt.Sprintf("0 given at %#x", outside)} {
		if !strings.Contains(got, want) || strings.Count(got, "given") != 2 {
			t.Errorf("said %s, want %s", got, want)
		}
	}
}

// Promise: where not all was seen nothing is compared, and why is said.
func TestABlindWitnessComparesNothing(t *testing.T) {
	for what, blind := range map[string]func(w *world){
		"attached late":        func(w *world) { w.driver(decodeProcess, "it was there before") },
		"records were lost":    func(w *world) { w.counts.CUDALost++; w.mark() },
		"a call is not known":  func(w *world) { w.calls(cuda.Record{PID: decodeProcess, Kind: cuda.Unknown}) },
		"nothing is allocated": func(w *world) { w.calls(cuda.Record{PID: decodeProcess, Kind: cuda.Free, Base: base}) },
	} {
		w := watchedFromItsStart(t)
		w.allocates(base, 10)
		if blind(w); what == "nothing is allocated" {
			w = watchedFromItsStart(t)
		}
		w.registers(1, base, 8192, 1)
		w.register(decodeSession)
		w.expectDriver(what, "")
		if all := w.Holdings(); len(all) == 1 && all[0].Why == "" {
			t.Errorf("%s: %+v", what, all)
		}
	}
}

// Promise: a process that is not watched and opens memory of one that is, is told, and
// that it closed it; one that is watched, or of the family, is not.
func TestWhoOpensMemoryOfAnotherIsTold(t *testing.T) {
	w := watchedFromItsStart(t)
	w.watches(prefillProcess)
	family := uint32(44)
	w.cfg.Stranger = func(process, owner uint32) bool { return process != family && owner == decodeProcess }
	w.register(decodeSession)
	w.allocates(base, 4096)
	for _, by := range []uint32{strangerProcess, prefillProcess, family} {
		w.calls(cuda.Record{PID: by, Kind: cuda.Open, Owner: decodeProcess, Base: 1 << 35, Other: base})
	}
	w.expectDriver("opened", fmt.Sprintf("%s: %d has 4096 open", decodeName, strangerProcess))
	w.calls(cuda.Record{PID: strangerProcess, Kind: cuda.Close, Owner: decodeProcess, Base: 1 << 35, Other: base})
	w.expectDriver("closed", fmt.Sprintf("%s: %d has 0 open", decodeName, strangerProcess))

	const inGPU = 1
	w.calls(cuda.Record{PID: decodeProcess, Kind: cuda.Create, Base: 5, Bytes: 8192, Other: inGPU})
	lent := w.calls(cuda.Record{PID: decodeProcess, Kind: cuda.Lend, Base: 5})
	for _, by := range []uint32{strangerProcess, prefillProcess, family} {
		w.calls(cuda.Record{PID: by, Kind: cuda.Import, Owner: decodeProcess, Base: 1, Other: uint64(lent)})
		w.calls(cuda.Record{PID: by, Kind: cuda.Import, Owner: decodeProcess, Base: 2, Other: uint64(lent + 1)})
	}
	w.expectDriver("imported", fmt.Sprintf("%s: %d has 8192 open", decodeName, strangerProcess))
}

// Promise: what each process holds is shown, under the instances that it is; one that
// ended holds nothing.
func TestWhatProcessesHoldIsShown(t *testing.T) {
	w := watchedFromItsStart(t)
	w.watches(prefillProcess)
	w.register(decodeSession)
	w.allocates(base, 4096)
	w.mark()
	all := w.Holdings()
	if len(all) != 1 || all[0].Process != decodeProcess || all[0].VRAM() != 4096 || all[0].Why != "" || len(all[0].Instances) != 1 || all[0].Instances[0] != decodeName {
		t.Errorf("%+v", all)
	}
	must(t, w.Take(probe.Process, (&probe.Seen{T: w.tick(), PID: decodeProcess, Ended: true}).Append(nil)))
	w.mark()
	if all := w.Holdings(); len(all) != 0 {
		t.Errorf("of a process that ended: %+v", all)
	}
}
