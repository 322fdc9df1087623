// Package record writes what an engine says of its requests and pages as facts of
// format v1, in order: to a trace file, or to whoever collects them.
//
// It is the plainest Witness of engine/worker: no sockets, no queue. It imports
// engine/lifecycle and the engine's own packages. It promises that facts carry
// numbers without a gap and times that never stand still, so that their order
// stays what it was, and that no content is in them: domains and prefixes leave
// as keyed hashes.
package record

import (
	"fmt"
	"strconv"
	"sync"

	"github.com/kvwitness/kvwitness/engine/kvcache"
	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/engine/scheduler"
	"github.com/kvwitness/kvwitness/engine/worker"
)

// Recorder implements worker.Witness.
type Recorder struct {
	node, inst string
	epoch      uint64
	out        func(*lifecycle.Fact)

	mu   sync.Mutex
	seq  uint64
	last int64
	ran  [scheduler.NumProtections]bool
}

var _ worker.Witness = (*Recorder)(nil)

// New makes a recorder for one epoch of an instance; out is called for each fact,
// one at a time, and keeps it.
func New(node, inst string, epoch uint64, out func(*lifecycle.Fact)) *Recorder {
	return &Recorder{node: node, inst: inst, epoch: epoch, out: out}
}

// say numbers, dates and hands out a fact.
func (r *Recorder) say(at kvcache.At, f lifecycle.Fact) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last = max(r.last+1, at.Now)
	f.T, f.Node, f.Inst, f.Src = r.last, r.node, r.inst, lifecycle.Engine
	f.Epoch, f.Seq = lifecycle.Some(r.epoch), lifecycle.Some(r.seq)
	r.seq++
	r.out(&f)
}

func (r *Recorder) step(at kvcache.At, f lifecycle.Fact) {
	f.Step = lifecycle.Some(int64(at.Step))
	r.say(at, f)
}

// Pool implements worker.Witness.
func (r *Recorder) Pool(spec worker.PoolSpec) kvcache.Events {
	s := &lifecycle.PoolSpec{
		Pages: uint32(spec.Pages), PageTokens: int64(spec.PageTokens), Role: spec.Role.String(),
		NullIDs: lifecycle.Runs{{First: uint32(kvcache.NullPage), Count: 1}},
	}
	if spec.ContextTokens > 0 {
		s.ContextTokens = lifecycle.Some(int64(spec.ContextTokens))
	}
	if spec.Name != "kv" {
		s.Owes = lifecycle.OwesNone
		// A slot is reserved, sent and released like a page; what is in it is told
		// by no event.
		s.Claims = lifecycle.Some([]lifecycle.Ev{lifecycle.PagesReserved, lifecycle.PagesReleased})
	}
	if l := spec.Layout; l != nil {
		s.DType, s.KVHeads = l.DType, int64(l.KVHeads)
		s.Layers = lifecycle.Some(lifecycle.Run{Count: uint32(l.Layers)})
	}
	for _, g := range spec.Regions {
		s.PageBytes += g.Bytes
		s.Regions = append(s.Regions, lifecycle.Region{Base: g.Base, Stride: g.Stride, Bytes: g.Bytes, Layer: int64(g.Layer), Part: g.Part})
	}
	r.say(kvcache.At{Now: worker.Now()}, lifecycle.Fact{Ev: lifecycle.PoolOpened, Pool: spec.Name, Spec: s})
	return &pool{r, spec.Name}
}

// Audit says a pool's own count.
func (r *Recorder) Audit(at kvcache.At, name string, a kvcache.Audit) {
	r.say(at, lifecycle.Fact{Ev: lifecycle.PoolAudit, Pool: name, Audit: &lifecycle.Audit{
		Free: int64(a.Free), Cached: int64(a.Cached), Held: int64(a.Held), PendingDrain: int64(a.PendingDrain),
	}})
}

func number[T ~uint64](n T) string { return strconv.FormatUint(uint64(n), 10) }

func room(n scheduler.Room) string {
	if n == 0 {
		return ""
	}
	return number(n)
}

func runs(in []kvcache.Run) (out lifecycle.Runs) {
	for _, r := range in {
		out = append(out, lifecycle.Run{First: uint32(r.First), Count: r.Count})
	}
	return out
}

func key(keys []kvcache.Key) string {
	if len(keys) == 0 {
		return ""
	}
	return fmt.Sprintf("%016x", uint64(keys[len(keys)-1]))
}

// pool tells of one pool's pages.
type pool struct {
	r    *Recorder
	name string
}

func (p *pool) Reserved(at kvcache.At, req kvcache.Req, pages []kvcache.Run) {
	p.r.step(at, lifecycle.Fact{Ev: lifecycle.PagesReserved, Pool: p.name, Req: number(req), Pages: runs(pages)})
}

func (p *pool) Shared(at kvcache.At, req kvcache.Req, d kvcache.Domain, pages []kvcache.Run, keys []kvcache.Key) {
	p.r.step(at, lifecycle.Fact{Ev: lifecycle.PagesShared, Pool: p.name, Req: number(req), Pages: runs(pages), Domain: lifecycle.Some(string(d)), Key: key(keys)})
}

func (p *pool) Written(at kvcache.At, req kvcache.Req, by kvcache.Writer, pages []kvcache.Run, tokens int) {
	how := lifecycle.ByForward
	if by == kvcache.ByTransfer {
		how = lifecycle.ByTransfer
	}
	p.r.step(at, lifecycle.Fact{Ev: lifecycle.PagesWritten, Pool: p.name, Req: number(req), Pages: runs(pages), By: how, Tokens: lifecycle.Some(int64(tokens))})
}

func (p *pool) Read(at kvcache.At, req kvcache.Req, pages []kvcache.Run) {
	p.r.step(at, lifecycle.Fact{Ev: lifecycle.PagesRead, Pool: p.name, Req: number(req), Pages: runs(pages)})
}

func (p *pool) Copied(at kvcache.At, _ kvcache.Req, from, to []kvcache.Run) {
	p.r.step(at, lifecycle.Fact{
		Ev: lifecycle.PagesCopied, Pool: p.name,
		CopyFrom: lifecycle.PageRef{Pool: p.name, Pages: runs(from)}, CopyTo: lifecycle.PageRef{Pool: p.name, Pages: runs(to)},
	})
}

func (p *pool) Cached(at kvcache.At, req kvcache.Req, d kvcache.Domain, pages []kvcache.Run, keys []kvcache.Key) {
	p.r.step(at, lifecycle.Fact{Ev: lifecycle.PagesCached, Pool: p.name, Req: number(req), Pages: runs(pages), Domain: lifecycle.Some(string(d)), Key: key(keys)})
}

func (p *pool) Released(at kvcache.At, req kvcache.Req, pages []kvcache.Run) {
	p.r.step(at, lifecycle.Fact{Ev: lifecycle.PagesReleased, Pool: p.name, Req: number(req), Pages: runs(pages)})
}

func (p *pool) Evicted(at kvcache.At, pages []kvcache.Run) {
	p.r.step(at, lifecycle.Fact{Ev: lifecycle.PagesEvicted, Pool: p.name, Pages: runs(pages)})
}
