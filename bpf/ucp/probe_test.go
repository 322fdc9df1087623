//go:build linux && amd64

package ucp_test

import (
	"encoding/hex"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	bpf "github.com/kvwitness/kvwitness/bpf/load"
	"github.com/kvwitness/kvwitness/bpf/target"
	"github.com/kvwitness/kvwitness/bpf/ucp"
	source "github.com/kvwitness/kvwitness/sidecar/source/ucp"
)

// The ways of testdata/peer.c.
const (
	putNBX, putNB, putNBI, put, getNBX, getNB, getNBI, get, putWords, putList = 0, 1, 2, 3, 4, 5, 6, 7, 8, 9
	flushEP, flushEPNB, flushEPWaits, flushWorker, flushWorkerNB, waitWorker  = 0, 1, 2, 3, 4, 5
)

// Promise: each way to put and to get is seen once, to the byte, with where from and
// where to, over the endpoint that was made; and the bytes are there. By either way to
// attach, over TCP and over shared memory.
func TestEachPutAndGetIsSeenOnceToTheByte(t *testing.T) {
	for i, tls := range []string{tcp, "UCX_TLS=shm"} {
		w := load(t, ucp.Options{PerfEvents: i == 1})
		p := connected(t, w, tls)
		made := of[source.Made](w.records(t))
		if len(made) != 1 || int(made[0].PID) != p.mover.PID() {
			t.Fatalf("endpoints made %+v", made)
		}
		arrived, offset := 0, 0
		for how, op := range []source.Op{putNBX: source.Put, putNB: source.Put, putNBI: source.Put, put: source.Put, getNBX: source.Get, getNB: source.Get, getNBI: source.Get, get: source.Get} {
			for _, bytes := range []int{1, 100, 8192, 100_000} {
				if op == source.Put {
					did(t, p.mover, "fill 7")
				}
				did(t, p.mover, "move %d %d %d %d", how, offset, p.remote+uint64(offset), bytes)
				did(t, p.mover, "flush %d", flushEP)
				all := of[source.Moved](w.records(t))
				if len(all) != 1 {
					t.Fatalf("way %d, %d bytes: seen %d times", how, bytes, len(all))
				}
				got := all[0]
				want := source.Moved{
					Head: got.Head, Endpoint: made[0].Endpoint, Remote: p.remote + uint64(offset), Local: p.local + uint64(offset),
					Bytes: uint64(bytes), Op: op, Returned: got.Returned,
				}
				if got != want || int(got.PID) != p.mover.PID() || got.Flags != 0 || got.Returned.Failed() {
					t.Errorf("way %d: got %+v, want %+v", how, got, want)
				}
				if op == source.Put {
					offset += bytes
					arrived += bytes
				} else {
					offset = 0
				}
			}
			p.settled(t, 7, arrived)
		}
		if n, err := w.Counters(); err != nil || n[ucp.RecordsLost]+n[ucp.LostCalls] != 0 {
			t.Errorf("counters %v, %v", n, err)
		}
	}
}

// Promise: of another shape than contiguous bytes it is said that it was not followed.
func TestShapesThatAreNotFollowedAreSaid(t *testing.T) {
	w := load(t, ucp.Options{})
	p := connected(t, w)
	for _, how := range []int{putWords, putList} {
		p.mover.Do(t, "move %d 0 %d 800", how, p.remote)
		if all := of[source.Moved](w.records(t)); len(all) != 1 || all[0].Flags != source.Truncated || all[0].Bytes != 0 || all[0].Remote != p.remote {
			t.Errorf("way %d: told %+v", how, all)
		}
	}
}

// Promise: an endpoint is told with how the address begins from which it was made,
// which is what its owner was told, in both ways to ask; and the end of each, and
// registrations, are told.
func TestWhereAnEndpointLeadsIsTold(t *testing.T) {
	w := load(t, ucp.Options{})
	p := connected(t, w)
	did(t, p.owner, "address 1")
	did(t, p.mover, "disconnect")
	did(t, p.owner, "unmap")
	did(t, p.owner, "close")
	did(t, p.mover, "close")
	all := w.records(t)
	id, err := hex.DecodeString(p.address[:32])
	if err != nil {
		t.Fatal(err)
	}
	workers, made, regions, gone := of[source.Worker](all), of[source.Made](all), of[source.Region](all), of[source.About](all)
	if len(workers) != 2 || len(made) != 1 || len(regions) != 1 || len(gone) != 4 {
		t.Fatalf("told %+v", all)
	}
	for _, o := range workers {
		if o.ID != source.ID(id) || int(o.PID) != p.owner.PID() || o.Worker != workers[0].Worker {
			t.Errorf("worker %+v, want %x", o, id)
		}
	}
	if e := made[0]; e.ID != source.ID(id) || !e.ByAddress || e.Flags != 0 || int(e.PID) != p.mover.PID() {
		t.Errorf("endpoint %+v, want %x", e, id)
	}
	if r := regions[0]; r.Addr != p.remote || r.Bytes != mebibyte || r.Device || int(r.PID) != p.owner.PID() {
		t.Errorf("region %+v", r)
	}
	want := []source.About{
		{What: source.KindEndpointGone, ID: made[0].Endpoint},
		{What: source.KindRegionGone, ID: regions[0].Handle},
		{What: source.KindWorkerGone, ID: workers[0].Worker},
		{What: source.KindWorkerGone, ID: made[0].Worker},
	}
	for i, g := range gone {
		g.Head = source.Head{}
		if g != want[i] {
			t.Errorf("end %d is %+v, want %+v", i, g, want[i])
		}
	}
}

// Promise: each way to flush is seen once, with what it is of; and with Completions,
// that a request is over is told, and that it is under way is not.
func TestFlushesAndCompletionsAreTold(t *testing.T) {
	w := load(t, ucp.Options{Completions: true})
	p := connected(t, w, tcp)
	made := of[source.Made](w.records(t))[0]
	for how, worker := range []bool{flushEP: false, flushEPNB: false, flushEPWaits: false, flushWorker: true, flushWorkerNB: true, waitWorker: true} {
		did(t, p.mover, "move %d 0 %d 200000", putNBX, p.remote)
		did(t, p.mover, "flush %d", how)
		all := w.records(t)
		flushed, moved, done := of[source.Flushed](all), of[source.Moved](all), of[source.Done](all)
		what := made.Endpoint
		if worker {
			what = made.Worker
		}
		if len(flushed) != 1 || flushed[0].What != what || flushed[0].OfWorker != worker || len(moved) != 1 {
			t.Fatalf("way %d: told %+v", how, all)
		}
		var requests []uint64
		for _, returned := range []source.Returned{moved[0].Returned, flushed[0].Returned} {
			if !returned.AtOnce() {
				requests = append(requests, returned.Request())
			}
		}
		var over []uint64
		for _, d := range done {
			if d.Failed {
				t.Errorf("way %d: failed: %+v", how, d)
			}
			over = append(over, d.Request)
		}
		if !slices.Equal(requests, over) {
			t.Errorf("way %d: requests %x, over %x", how, requests, over)
		}
	}
}

// Promise: a way around puts and gets is told, whether UCX gives it or not.
func TestAWayAroundIsTold(t *testing.T) {
	w := load(t, ucp.Options{})
	p := connected(t, w)
	w.records(t)
	p.mover.Do(t, "around %d", p.remote)
	if all := of[source.About](w.records(t)); len(all) != 1 || all[0].What != source.KindBypass || int(all[0].PID) != p.mover.PID() {
		t.Errorf("told %+v", all)
	}
}

// renamed is a copy of this machine's UCX under another name, without its symbol
// table.
func renamed(t *testing.T, name string) string {
	t.Helper()
	out, err := exec.Command("ldconfig", "-p").Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(out)) {
		if !strings.Contains(line, "libucp.so.0 ") {
			continue
		}
		path := filepath.Join(t.TempDir(), name)
		if out, err := exec.Command("strip", "--strip-all", "-o", path, strings.TrimSpace(line[strings.LastIndex(line, "=>")+2:])).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return path
	}
	t.Fatal("libucp.so.0 is not installed (Debian: libucx0)")
	return ""
}

// Promise: UCX is found by what it exports, also where it is called as wheels call it
// or otherwise, and without a symbol table.
func TestUCXIsFoundWhateverItIsCalled(t *testing.T) {
	for _, name := range []string{"libucp-1a2b3c4d.so.0.0.0", "libmoves.so"} {
		w := load(t, ucp.Options{})
		p := connected(t, w, "LD_PRELOAD="+renamed(t, name))
		did(t, p.mover, "move %d 64 %d 4096", putNBX, p.remote)
		if all := of[source.Moved](w.records(t)); len(all) != 1 || all[0].Bytes != 4096 {
			t.Errorf("%s: seen %+v", name, all)
		}
	}
}

// Promise: calls of a process that is not watched say nothing, though the same file
// is attached to.
func TestOthersAreNotSeen(t *testing.T) {
	w := load(t, ucp.Options{Completions: true})
	connected(t, w)
	w.records(t)
	other := &pair{owner: start(t), mover: start(t)}
	other.open(t)
	other.connect(t)
	did(t, other.mover, "move %d 0 %d 4096", putNBX, other.remote)
	did(t, other.mover, "flush %d", flushEP)
	if all := w.records(t); len(all) != 0 {
		t.Errorf("records of processes that are not watched: %+v", all)
	}
}

// Promise: a process without UCX, and one that has died, are errors that say so; one
// that dies while it is watched is seen until then, and the other side goes on.
func TestATargetThatDiesIsSeenUntilThen(t *testing.T) {
	w := load(t, ucp.Options{})
	own, err := target.Mappings(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Watch(os.Getpid(), own); !errors.Is(err, ucp.ErrNoUCX) {
		t.Errorf("a process without UCX: %v", err)
	}
	p := connected(t, w)
	did(t, p.mover, "fill 9")
	did(t, p.mover, "move %d 0 %d 5000", putNBX, p.remote)
	did(t, p.mover, "flush %d", flushEP)
	maps, err := target.Mappings(p.mover.PID())
	if err != nil {
		t.Fatal(err)
	}
	p.mover.Kill()
	if all := of[source.Moved](w.records(t)); len(all) != 1 || all[0].Bytes != 5000 {
		t.Errorf("seen %+v", all)
	}
	p.settled(t, 9, 5000)
	if _, err := load(t, ucp.Options{}).Watch(p.mover.PID(), maps); err == nil {
		t.Error("a process that has died is watched")
	}
}

// Promise: what the ring has no room for is counted, what lasts too.
func TestWhatIsLostIsCounted(t *testing.T) {
	w := load(t, ucp.Options{Options: bpf.Options{RingBytes: 4096}})
	p := connected(t, w)
	w.records(t)
	did(t, p.mover, "flood %d 64 1000", p.remote)
	did(t, p.mover, "disconnect")
	seen := len(of[source.Moved](w.records(t)))
	n, err := w.Counters()
	if err != nil || seen+int(n[ucp.RecordsLost])-1 != 1000 || n[ucp.LostObjects] != 1 || n[ucp.LostCalls] != 0 {
		t.Errorf("%d are seen of 1000, counters %v, %v", seen, n, err)
	}
}
