// Command production writes a trace of production size to standard output:
// disaggregated requests, many at once, watched from outside, a few of which
// are the incident (8 pages reserved, 1 written, 8 read). It imports only
// engine/lifecycle. The same flags give the same trace.
//
//	go run ./test/bench/production -requests 1000000 | kvwitness replay --json -
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"strconv"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
)

const (
	decode, prefill = "decode-0/tp0", "prefill-0/tp0"

	slots      = 128 // requests at once; each has its own pages, used again and again
	slotPages  = 8
	pageTokens = 64
	pageBytes  = 64 << 10
	base       = 0x7f5000000000
	tick       = 70_000 // ns from fact to fact: about 1,000 requests a second
)

func main() {
	requests := flag.Int("requests", 1_000_000, "how many requests")
	incidents := flag.Int("incidents", 155, "how many of them are the incident")
	flag.Parse()
	if err := write(os.Stdout, *requests, *incidents); err != nil {
		fmt.Fprintln(os.Stderr, "production:", err)
		os.Exit(1)
	}
}

// trace is what has been written so far.
type trace struct {
	out *lifecycle.Writer
	t   int64
	seq map[[2]string]uint64 // by inst and src
	err error
}

func write(w io.Writer, requests, incidents int) error {
	out, err := lifecycle.NewWriter(w, lifecycle.Header{Node: "gpu-0", Boot: "b", Wall: "2026-09-09T13:22:00Z", DomainKey: "k1"})
	if err != nil {
		return err
	}
	tr := &trace{out: out, seq: map[[2]string]uint64{}}
	tr.open(prefill, "prefill")
	tr.open(decode, "decode")
	tr.say(&lifecycle.Fact{Inst: decode, Src: lifecycle.Sidecar, Ev: lifecycle.SourceCoverage, Of: lifecycle.RDMA, Complete: true})

	// The slots take turns, a fact each, so that requests overlap.
	var running [slots][]*lifecycle.Fact
	for started, busy := 0, slots; busy > 0; {
		busy = 0
		for slot := range running {
			if len(running[slot]) == 0 && started < requests {
				running[slot] = request(started, slot, isIncident(started, requests, incidents))
				started++
			}
			if len(running[slot]) > 0 {
				tr.say(running[slot][0])
				running[slot] = running[slot][1:]
				busy++
			}
		}
	}
	if tr.err != nil {
		return fmt.Errorf("write the trace: %w", tr.err)
	}
	return out.Flush()
}

// isIncident spreads the incidents over the trace, never the first of a slot:
// before it, there is nobody's data to expose.
func isIncident(n, requests, incidents int) bool {
	late := n - slots
	span := requests - slots
	return late >= 0 && late*incidents/span != (late+1)*incidents/span
}

// say writes a fact, dated and numbered.
func (tr *trace) say(f *lifecycle.Fact) {
	tr.t += tick
	stream := [2]string{f.Inst, f.Src.String()}
	f.T, f.Seq = tr.t, lifecycle.Some(tr.seq[stream])
	tr.seq[stream]++
	if err := tr.out.Write(f); err != nil && tr.err == nil {
		tr.err = err
	}
}

func (tr *trace) open(inst, role string) {
	tr.say(&lifecycle.Fact{
		Inst: inst, Src: lifecycle.Engine, Ev: lifecycle.PoolOpened, Pool: "kv",
		Spec: &lifecycle.PoolSpec{
			Pages: slots * slotPages, PageTokens: pageTokens, Role: role, PageBytes: pageBytes, DType: "bfloat16",
			Regions: []lifecycle.Region{{Base: base, Stride: pageBytes, Bytes: pageBytes, Part: "kv"}},
		},
	})
}

// request is the life of request n in a slot. As the incident, one page of
// eight is written and sent, and all are read.
func request(n, slot int, incident bool) []*lifecycle.Fact {
	req, room, xfer := "req-"+strconv.Itoa(n), strconv.Itoa(1_000_000+n), "x-"+strconv.Itoa(n)
	first := uint32(slot * slotPages)
	all := lifecycle.Runs{{First: first, Count: slotPages}}
	sent := all
	if incident {
		sent = lifecycle.Runs{{First: first, Count: 1}}
	}
	domain := lifecycle.Some(fmt.Sprintf("%016x", n%97))
	tokens := lifecycle.Some[int64](slotPages * pageTokens)
	life := []*lifecycle.Fact{
		{Inst: decode, Ev: lifecycle.RequestAdmitted, Room: room, Domain: domain, PromptTokens: tokens},
		{Inst: decode, Ev: lifecycle.PagesReserved, Pool: "kv", Pages: all},
		{Inst: decode, Ev: lifecycle.TransferStarted, Xfer: xfer, Room: room, Side: lifecycle.Receiver, Pool: "kv", Pages: all, Peer: prefill, Op: lifecycle.Push},
		{Inst: prefill, Ev: lifecycle.RequestAdmitted, Room: room, Domain: domain, PromptTokens: tokens},
		{Inst: prefill, Ev: lifecycle.PagesReserved, Pool: "kv", Pages: all},
		{Inst: prefill, Ev: lifecycle.PagesWritten, Pool: "kv", Pages: sent, By: lifecycle.ByForward},
		{Inst: prefill, Ev: lifecycle.TransferStarted, Xfer: xfer, Room: room, Side: lifecycle.Sender, Pool: "kv", Pages: sent, Peer: decode, Op: lifecycle.Push},
		moved(sent, xfer),
		{Inst: decode, Ev: lifecycle.TransferCompleted, Xfer: xfer, Room: room, Peer: prefill, Outcome: lifecycle.OK, Last: true},
		{Inst: decode, Ev: lifecycle.PagesRead, Pool: "kv", Pages: all},
		{Inst: prefill, Ev: lifecycle.PagesReleased, Pool: "kv", Pages: all},
		{Inst: prefill, Ev: lifecycle.RequestFinished, Room: room, HTTPStatus: 200, Finish: lifecycle.FinishLength},
		{Inst: decode, Ev: lifecycle.RequestFinished, Room: room, HTTPStatus: 200, Finish: lifecycle.FinishStop},
		{Inst: decode, Ev: lifecycle.PagesReleased, Pool: "kv", Pages: all},
	}
	for _, f := range life {
		if f.Src == lifecycle.SrcNone {
			f.Src, f.Req = lifecycle.Engine, req
		}
	}
	return life
}

// moved is the one RDMA write of a transfer.
func moved(pages lifecycle.Runs, xfer string) *lifecycle.Fact {
	at := base + uint64(pages[0].First)*pageBytes
	return &lifecycle.Fact{
		Inst: decode, Src: lifecycle.RDMA, Ev: lifecycle.BytesMoved, Xfer: xfer, From: prefill,
		Addr: at, FromAddr: lifecycle.Some(at), Bytes: uint64(pages[0].Count) * pageBytes,
		Op: lifecycle.Write, RKey: lifecycle.Some[uint64](8193), QP: lifecycle.Some[uint64](77), Outcome: lifecycle.OK,
	}
}
