package witness

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
	wire "github.com/kvwitness/kvwitness/engine/pdwire"
	"github.com/kvwitness/kvwitness/sidecar/finding"
	"github.com/kvwitness/kvwitness/sidecar/probe"
	"github.com/kvwitness/kvwitness/sidecar/source/proven"
	"github.com/kvwitness/kvwitness/test/commanded"
	"github.com/kvwitness/kvwitness/test/cuda"
	"github.com/kvwitness/kvwitness/test/witness/couple"
)

// The pools of these tests: two regions, one after the other.
const cudaPages, cudaStride = 64, 4096

// cudaHalf starts one whose memory is the stand-in's.
func cudaHalf(t *testing.T, dir string) *half {
	t.Helper()
	h := startProgram(t, nil, "cuda_peer.py")
	h.do("load", map[string]any{"path": filepath.Join(dir, cuda.Library)})
	return h
}

// registered has a decode tell a prefill of its pool, which begins at an address, and
// returns its name.
func registered(prefill, decode *half, at uint64) (instance string) {
	own := decode.do("bind", map[string]any{"kind": "PULL"}).Port
	to := prefill.do("bind", map[string]any{"kind": "PULL"}).Port
	decode.do("connect", map[string]any{"kind": "PUSH", "to": fmt.Sprintf("127.0.0.1:%d", to)})
	r := &wire.Registration{
		Address: wire.Address{Host: "127.0.0.1", Port: uint16(own)}, Session: "127.0.0.1:1",
		KVPtrs: []uint64{at, at + cudaPages*cudaStride}, KVItemBytes: cudaStride, AttnTPSize: 1, DCPSize: 1,
	}
	decode.do("send", couple.Frames(r.Frames()))
	prefill.do("recv", nil)
	return fmt.Sprintf("127.0.0.1:%d", own)
}

// Promise: an engine whose pool lies in memory that the CUDA driver gave it is accused of
// nothing; one whose pool ends beyond that memory is; and so it is said whose memory a
// process of no engine opens.
func TestPoolsAreComparedWithWhatTheDriverGaveTheirProcess(t *testing.T) {
	dir := t.TempDir()
	must(t, cuda.Build(dir))
	w := watchWith(t, probe.StartConfig{Match: []string{"command=cuda_peer.py"}, CUDA: true}, proven.Config{
		Known: func(string) proven.Layout { return proven.Layout{Pages: cudaPages, PageTokens: 16} },
	})
	cudaHalf(t, dir) // by which the probe meets the driver
	w.await("the driver is attached to", func() bool { return strings.Contains(strings.Join(w.problems, ""), "before the witness was there") })
	prefill, honest, other := cudaHalf(t, dir), cudaHalf(t, dir), cudaHalf(t, dir)
	const pool = 2 * cudaPages * cudaStride
	base := honest.do("alloc", map[string]any{"bytes": pool}).Address
	name := registered(prefill, honest, base)
	short := registered(prefill, other, other.do("alloc", map[string]any{"bytes": pool - 1}).Address)
	given := func(inst string) int {
		return w.count(func(f *lifecycle.Fact) bool {
			return f.Src == lifecycle.CUDA && f.Ev == lifecycle.RegionRegistered && f.Inst == inst
		})
	}
	w.await("both are compared", func() bool { return given(name) == 2 && given(short) == 2 })
	of := func(inst string) (all []finding.Finding) {
		for _, f := range w.findings {
			if f.Kind == finding.VRAMMismatch && f.Inst == inst {
				all = append(all, f)
			}
		}
		return all
	}
	w.await("the pool that ends beyond its memory", func() bool { return len(of(short)) > 0 })
	if !w.look(func() bool { return len(of(name)) == 0 }) {
		t.Errorf("the other is accused: %+v", of(name))
	}

	handle := honest.do("lend", map[string]any{"address": base}).Session
	stranger := commanded.Start(t, nil, filepath.Join(dir, cuda.Caller))
	stranger.Do(t, "load")
	stranger.Do(t, "open %s", handle)
	w.await("that its memory was opened", func() bool { return len(of(name)) == 1 })
	want := fmt.Sprintf("process %d, of no engine, opened %d bytes of it or more", stranger.PID(), pool)
	w.look(func() bool {
		if f := of(name)[0]; f.Observation != want {
			t.Errorf("found %+v, want %s", f, want)
		}
		if n := len(of(short)); n != 1 { // by its second region
			t.Errorf("%d findings of the pool that ends beyond its memory", n)
		}
		return true
	})

	fd := honest.do("share", map[string]any{"bytes": 1 << 16}).Address
	importer := commanded.Start(t, nil, filepath.Join(dir, cuda.Caller))
	importer.Do(t, "load")
	importer.Do(t, "import %s", importer.Do(t, "take %d %d", honest.PID(), fd))
	w.await("that its memory was imported", func() bool { return len(of(name)) == 2 })
	want = fmt.Sprintf("process %d, of no engine, opened %d bytes of it or more", importer.PID(), 1<<16)
	w.look(func() bool {
		if f := of(name)[1]; f.Observation != want {
			t.Errorf("found %+v, want %s", f, want)
		}
		return true
	})
}

// Promise: what an engine's process copies into, out of and within its pool is counted to
// the byte where that is asked for, and accuses nobody.
func TestCopiesThatTouchAPoolAreCounted(t *testing.T) {
	dir := t.TempDir()
	must(t, cuda.Build(dir))
	w := watchWith(t, probe.StartConfig{Match: []string{"command=cuda_peer.py"}, CUDA: true, Copies: true}, proven.Config{
		Known: func(string) proven.Layout { return proven.Layout{Pages: cudaPages, PageTokens: 16} },
	})
	cudaHalf(t, dir) // by which the probe meets the driver
	w.await("the driver is attached to", func() bool { return strings.Contains(strings.Join(w.problems, ""), "before the witness was there") })
	prefill, decode := cudaHalf(t, dir), cudaHalf(t, dir)
	const pool = 2 * cudaPages * cudaStride
	base := decode.do("alloc", map[string]any{"bytes": pool}).Address
	elsewhere := decode.do("alloc", map[string]any{"bytes": pool}).Address
	name := registered(prefill, decode, base)
	w.await("the pool is met", func() bool { _, met := w.state.Copied()[name]; return met })
	before := proven.Copied{}
	for copies := uint64(1); before.Into == 0; copies++ {
		decode.do("copy", map[string]any{"to": base, "from": elsewhere, "bytes": 7})
		w.await("each copy", func() bool { return w.state.Stats().Copies == copies })
		w.look(func() bool { before = w.state.Copied()[name]; return true })
	}
	for range 10 {
		decode.do("copy", map[string]any{"to": base, "from": elsewhere, "bytes": 100})
		decode.do("copy", map[string]any{"to": elsewhere, "from": base + pool - 100, "bytes": 200})
		decode.do("copy", map[string]any{"to": base, "from": base + cudaStride, "bytes": 3})
	}
	want := proven.Copied{Into: before.Into + 1000, OutOf: before.OutOf + 1000, Within: before.Within + 30}
	w.await(fmt.Sprintf("%+v", want), func() bool { return w.state.Copied()[name] == want })
	w.look(func() bool {
		if s := w.state.Stats(); len(w.findings) > 0 || s.Probe.CopiesLost > 0 {
			t.Errorf("found %+v; %d copies lost", w.findings, s.Probe.CopiesLost)
		}
		return true
	})
}

// Promise: a whole sidecar that is asked to shows what each watched process holds, to the
// byte, and of which not all is known, with the reason.
func TestAWholeSidecarShowsWhatProcessesHold(t *testing.T) {
	dir := t.TempDir()
	must(t, cuda.Build(dir))
	s := startWhole(t, "exe="+cuda.Caller, "--watch-cuda")
	for _, known := range []bool{false, true} { // the first is there before the driver is attached to
		p := commanded.Start(t, nil, filepath.Join(dir, cuda.Caller))
		p.Do(t, "load")
		s.await("what it holds", func(o *sight) bool {
			p.Do(t, "alloc 4096")
			for _, m := range o.Outside.Memory {
				if m.Process == p.PID() && (m.Unknown == "") == known && m.Held["device"] > 0 && m.Held["device"]%4096 == 0 {
					return true
				}
			}
			return false
		})
	}
}
