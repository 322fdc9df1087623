//go:build linux && amd64

package verbs_test

import (
	"errors"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/kvwitness/kvwitness/bpf/target"
	"github.com/kvwitness/kvwitness/bpf/verbs"
	source "github.com/kvwitness/kvwitness/sidecar/source/verbs"
)

// Addresses that testdata/target.c posts at.
const remote, local = 0x100000000, 0x200000000

// Promise: whatever is posted, of however many requests and scatter entries, is
// seen to the byte, merged where it is contiguous on both sides; with bpf_loop
// and without, and however the scatter entries lie in memory.
func TestWhatIsPostedIsSeenToTheByte(t *testing.T) {
	dir := build(t)
	for _, how := range []struct {
		short bool
		apart int
	}{{false, 0}, {false, 1}, {true, 0}, {true, 8}} {
		w := load(t, verbs.Options{ShortChains: how.short, PerfEvents: how.short})
		p := connected(t, dir, w)
		p.Do(t, "apart %d", how.apart)
		for _, c := range []struct {
			n, sges, bytes, gap int
			op                  source.Op
			last                bool
		}{
			{1, 1, 65536, 0, source.OpWrite, false},
			{16, 1, 65536, 0, source.OpWrite, false},
			{16, 1, 4096, 4096, source.OpWriteImm, false},
			{256, 1, 65536, 0, source.OpWrite, false},
			{256, 1, 65536, 64, source.OpRead, false},
			{100, 3, 1000, 8, source.OpWrite, true},
			{7, 32, 512, 0, source.OpRead, true},
			{3, 1, 100, 0, 2 /* IBV_WR_SEND: moves nothing one-sided */, false},
		} {
			last := 0
			if c.last {
				last = 1
			}
			p.Do(t, "post %d %d %d %d %d %d", c.n, c.sges, c.bytes, c.gap, c.op, last)
			got := posted(t, w.records(t))
			want := expected(c.n, c.sges, c.bytes, c.gap, c.op, c.last)
			if !slices.Equal(got.Extents, want) || int(got.Requests) != c.n || got.Number != 17 || got.Flags != 0 {
				t.Errorf("%+v, %+v:\n got %d requests of QP %d, flags %d, %v\nwant %v", how, c, got.Requests, got.Number, got.Flags, got.Extents, want)
			}
		}
		if n := w.counters(t); n[verbs.RecordsLost]+n[verbs.LostBusy]+n[verbs.LostCalls] != 0 || n[verbs.Calls] != 8 {
			t.Errorf("counters %v", n)
		}
	}
}

// posted joins the records of one call.
func posted(t *testing.T, all []any) source.Posted {
	t.Helper()
	var sum source.Posted
	for i, p := range of[source.Posted](all) {
		if i == 0 {
			sum = p
			continue
		}
		sum.Requests += p.Requests
		sum.Extents = append(sum.Extents, p.Extents...)
		sum.Flags |= p.Flags
	}
	return sum
}

// expected is what a chain should be seen as.
func expected(n, sges, bytes, gap int, op source.Op, last bool) []source.Extent {
	if op == 2 {
		return nil
	}
	var all []source.Extent
	r, l := uint64(remote), uint64(local)
	size := uint64(sges * bytes)
	for i := range n {
		signaled := !last || i == n-1
		if k := len(all) - 1; k >= 0 && gap == 0 && all[k].Signaled == signaled {
			all[k].Bytes += size
			all[k].Requests++
			all[k].WRID = uint64(i + 1)
		} else {
			all = append(all, source.Extent{Remote: r, Local: l, Bytes: size, WRID: uint64(i + 1), RKey: 42, Requests: 1, Op: op, Signaled: signaled})
		}
		r, l = r+size+uint64(gap), l+size
	}
	return all
}

// Promise: the peer of a QP, registrations with the address that remote sides
// name, and the end of each are told.
func TestConnectionsAndRegistrationsAreTold(t *testing.T) {
	w := load(t, verbs.Options{})
	p := start(t, build(t))
	w.watch(t, p)
	p.Do(t, "open")
	p.Do(t, "qp 17 99")
	all := w.records(t)
	qps := of[source.QP](all)
	if len(of[source.Context](all)) != 1 || len(qps) != 1 {
		t.Fatalf("records %+v", all)
	}
	if q := qps[0]; q.Number != 17 || q.DestQP != 99 || q.Mask != source.AttrState|source.AttrAV|source.AttrDestQP || !q.GlobalGID || q.DestGID != [16]byte(slices.Repeat([]byte{0xab}, 16)) || int(q.PID) != p.PID() {
		t.Errorf("QP %+v", q)
	}
	plain, _ := strconv.Atoi(p.Do(t, "reg 8192"))
	dmabuf, _ := strconv.Atoi(p.Do(t, "dmabuf 4096"))
	p.Do(t, "end")
	all = w.records(t)
	regions := of[source.Region](all)
	if len(regions) != 2 {
		t.Fatalf("records %+v", all)
	}
	if r := regions[0]; r.Addr != 0x8000000000 || r.Bytes != 8192 || int(r.RKey) != plain || r.DMABuf {
		t.Errorf("plain registration %+v, rkey %d", r, plain)
	}
	if r := regions[1]; r.Addr != 0x9000000000 || r.Bytes != 4096 || int(r.RKey) != dmabuf || !r.DMABuf {
		t.Errorf("dmabuf registration %+v, rkey %d", r, dmabuf)
	}
	var gone []source.Kind
	for _, g := range of[source.About](all) {
		gone = append(gone, g.What)
	}
	if want := []source.Kind{source.KindRegionGone, source.KindQPGone, source.KindContextGone}; !slices.Equal(gone, want) {
		t.Errorf("ends %v, want %v", gone, want)
	}
}

// Promise: requests of the extended API are seen as those of post_send are, and
// bytes that a request carries inline are said to be unseen.
func TestExtendedAPIIsSeen(t *testing.T) {
	w := load(t, verbs.Options{})
	p := connected(t, build(t), w)
	told := make(chan string)
	go func() { told <- p.Do(t, "ext 5") }()
	all := w.records(t)
	<-told
	all = append(all, w.records(t)...)
	if len(w.errs) > 0 {
		t.Fatal(w.errs)
	}
	got := posted(t, all)
	want := []source.Extent{
		{Remote: remote, Local: local, Bytes: 6 * 4096, WRID: 2, RKey: 42, Requests: 2, Op: source.OpWrite},
		{Remote: 0x300000000, Local: 0x400000000, Bytes: 512, WRID: 3, RKey: 42, Requests: 1, Op: source.OpRead, Signaled: true},
	}
	if !slices.Equal(got.Extents, want) || got.Requests != 4 || got.Flags != source.Truncated {
		t.Errorf("%d requests, flags %d, %+v", got.Requests, got.Flags, got.Extents)
	}
}

// Promise: with Completions, each signalled request's end is told, with its
// status.
func TestCompletionsAreTold(t *testing.T) {
	w := load(t, verbs.Options{Completions: true})
	p := connected(t, build(t), w)
	p.Do(t, "post 20 1 4096 0 0 0")
	p.Do(t, "fail 10")
	p.Do(t, "post 2 1 4096 0 0 0")
	if n := p.Do(t, "poll 64"); n != "22" {
		t.Fatalf("polled %s", n)
	}
	p.Do(t, "poll 64") // empty: says nothing
	all := of[source.Completed](w.records(t))
	if len(all) != 1 || len(all[0].All) != 22 {
		t.Fatalf("records %+v", all)
	}
	for i, c := range all[0].All {
		want := source.Completion{WRID: uint64(i + 1), Number: 17, Opcode: 1}
		if i >= 20 {
			want = source.Completion{WRID: uint64(i - 19), Number: 17, Status: 10, Opcode: 1}
		}
		if c != want {
			t.Errorf("completion %d is %+v, want %+v", i, c, want)
		}
	}
}

// Promise: what a hostile process posts is followed within bounds, and a record
// says what was cut or could not be read.
func TestHostileRequestsAreCutAndSaid(t *testing.T) {
	dir := build(t)
	for _, short := range []bool{false, true} {
		w := load(t, verbs.Options{ShortChains: short})
		p := connected(t, dir, w)
		for how, want := range map[string]source.Flags{
			"loop": source.Truncated, "huge": 0, "entries": source.Truncated | source.Unreadable,
			"negative": source.Truncated | source.Unreadable, "wild": source.Unreadable,
		} {
			p.Do(t, "hostile %s", how)
			got := posted(t, w.records(t))
			switch {
			case got.Requests == 0 || got.Flags&^want != 0 || want != 0 && got.Flags == 0:
				t.Errorf("short chains %v, %s: %d requests, flags %d of %d", short, how, got.Requests, got.Flags, want)
			case how == "huge" && got.Extents[0].Bytes != 0xffffffff:
				t.Errorf("a scatter entry of 4 GiB is seen as %d bytes", got.Extents[0].Bytes)
			}
		}
	}
}

// Promise: an address out of the process's memory is attached to only where a
// function of a verbs provider starts.
func TestForgedAddressesAreRefused(t *testing.T) {
	w := load(t, verbs.Options{})
	p := connected(t, build(t), w)
	for how, want := range map[string]error{
		"libc": verbs.ErrNotProvider, "middle": target.ErrNotAFunction, "nowhere": verbs.ErrNotProvider,
	} {
		w.errs = nil
		p.Do(t, "forge %s", how)
		w.records(t)
		if len(w.errs) != 1 || !errors.Is(w.errs[0], want) {
			t.Errorf("%s: %v, want %v", how, w.errs, want)
		}
	}
}

// Promise: calls of a process that is not watched say nothing, though the same
// files are attached to.
func TestOthersAreNotSeen(t *testing.T) {
	dir := build(t)
	w := load(t, verbs.Options{Completions: true})
	connected(t, dir, w)
	other := start(t, dir)
	other.Do(t, "open")
	other.Do(t, "qp 17 99")
	other.Do(t, "post 16 1 4096 0 0 0")
	other.Do(t, "poll 64")
	other.Do(t, "reg 4096")
	if all := w.records(t); len(all) != 0 {
		t.Errorf("records of a process that is not watched: %+v", all)
	}
}

// Promise: a process without libibverbs, or that is gone, is an error that says
// so, and costs nothing else.
func TestProcessesThatCannotBeWatchedAreErrors(t *testing.T) {
	w := load(t, verbs.Options{})
	if err := w.attachTo(1 << 30); err == nil {
		t.Error("a process that does not exist is watched")
	}
	p := connected(t, build(t), w)
	p.Kill()
	if err := w.attachTo(p.PID()); err == nil {
		t.Error("a process that ended is watched")
	}
}

// Promise: a process that opened its device and connected before it was watched
// is seen from when its context was found.
func TestLateAttachFindsTheContext(t *testing.T) {
	w := load(t, verbs.Options{})
	p := start(t, build(t))
	p.Do(t, "open")
	p.Do(t, "qp 17 99")
	p.Do(t, "post 4 1 4096 0 0 0") // unseen
	w.watch(t, p)
	found, err := verbs.FindContexts(p.PID())
	if err != nil || len(found) != 1 {
		t.Fatalf("found %+v, %v", found, err)
	}
	if since, err := w.AttachContext(found[0]); err != nil || since == 0 {
		t.Fatal(since, err)
	}
	p.Do(t, "post 16 1 4096 0 0 0")
	if got := posted(t, w.records(t)); got.Requests != 16 || got.Context != found[0].Context {
		t.Errorf("%+v", got)
	}
}

// Promise: a process that may be watched before it runs is seen from its first
// call.
func TestProcessesAreSeenFromTheirFirstCall(t *testing.T) {
	dir := build(t)
	w := load(t, verbs.Options{})
	if _, err := w.AttachLibrary(filepath.Join(dir, "libibverbs.so.1")); err != nil {
		t.Fatal(err)
	}
	p := start(t, dir)
	if err := w.Allow(p.PID()); err != nil {
		t.Fatal(err)
	}
	p.Do(t, "open")
	if all := of[source.Context](w.records(t)); len(all) != 1 || len(w.errs) != 0 {
		t.Errorf("%+v, %v", all, w.errs)
	}
}
