package oracle

import (
	"github.com/kvwitness/kvwitness/engine/lifecycle"
)

// cover is a source's word that it sees all that comes into an instance from a
// peer, or from all peers (peer "").
type coverKey struct {
	of   lifecycle.Src
	peer string
}

type cover struct {
	since  int             // how many facts were applied before it
	except map[string]bool // peers of which it was taken back, of a cover for all
}

// coverage applies source_coverage.
func (o *oracle) coverage(e *entry) {
	i := o.inst(e.Inst)
	if !e.Of.Observes() {
		return
	}
	if !e.Complete {
		o.blindByCoverage(e)
		i.uncover(e.Of, e.Peer)
		return
	}
	k := coverKey{e.Of, e.Peer}
	if i.covers[k] == nil {
		i.covers[k] = &cover{o.applied, map[string]bool{}}
		return
	}
	for peer := range i.covers[k].except {
		again := coverKey{e.Of, peer}
		if i.covers[again] == nil {
			i.covers[again] = &cover{o.applied, nil}
		}
	}
}

// uncover takes back a source's word about a peer; "": about all of them,
// those declared singly too.
func (i *instance) uncover(of lifecycle.Src, peer string) {
	for k, c := range i.covers {
		switch {
		case k.of != of:
		case peer == "" || k.peer == peer:
			delete(i.covers, k)
		case k.peer == "":
			c.except[peer] = true
		}
	}
}

// coveredBy reports whether a source's word about a peer was given before the
// moment and still holds.
func (i *instance) coveredBy(of lifecycle.Src, peer string, moment int) bool {
	if c := i.covers[coverKey{of, peer}]; c != nil && c.since < moment {
		return true
	}
	c := i.covers[coverKey{of, ""}]
	return c != nil && !c.except[peer] && c.since < moment
}

// sees reports whether the coverage of a handoff is complete (R19).
func (o *oracle) sees(h *handoff) bool {
	if h.judged {
		return h.seen
	}
	if h.mixed || h.partial || h.room.early[h.receiver] {
		return false
	}
	for _, t := range h.room.transfers { // also those that nobody was seen to start
		if t.receiver == h.receiver && !o.watched(h.receiver, t.sender, h.first) {
			return false
		}
	}
	return len(h.transfers()) > 0
}

// watched: some source has seen all that came into an instance from a peer
// since a moment.
func (o *oracle) watched(inst, peer string, moment int) bool {
	for of := lifecycle.RDMA; of <= lifecycle.NVML; of++ {
		if o.inst(inst).coveredBy(of, peer, moment) {
			return true
		}
	}
	return false
}

// seesPage reports whether a page's writes are observed: it is a target of a
// transfer whose coverage is complete, in a pool whose regions are known.
func (o *oracle) seesPage(g *generation) bool {
	if !g.page.pool.direct() {
		return false
	}
	if g.missed {
		return true
	}
	for _, t := range g.targets {
		if r := o.takes(t); r != nil && !same(g.holder, r) {
			continue // it has no business there
		}
		if h := t.handoff(); h != nil && o.sees(h) {
			return true
		}
	}
	return false
}

func staging(r lifecycle.Region) bool { return r.Part == "staging" }

// direct: transfers write into the pages of the pool, where they can be seen.
func (p *pool) direct() bool {
	if p.spec.Path == lifecycle.PathStaged {
		return false
	}
	for _, r := range p.spec.Regions {
		if !staging(r) {
			return true
		}
	}
	return false
}

// allBytes: every byte of the page in every region of its pool was observed.
func (g *generation) allBytes() bool {
	any := false
	for n, r := range g.page.pool.spec.Regions {
		if staging(r) {
			continue
		}
		any = true
		if !g.bytes[n].covers(0, r.Bytes) {
			return false
		}
	}
	return any
}

// local: written here, and not by a transfer.
func (g *generation) local() bool { return g.localBy(lifecycle.Opt[int64]{}) }

// localBy is local, leaving out claims of a step later than the one given.
func (g *generation) localBy(step lifecycle.Opt[int64]) bool {
	for _, c := range g.claims {
		if c.by != lifecycle.ByTransfer && !c.after(step) {
			return true
		}
	}
	return false
}

func (c claimed) after(step lifecycle.Opt[int64]) bool {
	return step.Has && c.step.Has && c.step.V > step.V
}

// claimedByTransfer leaves out claims of a step later than the one given.
func (g *generation) claimedByTransfer(step lifecycle.Opt[int64]) bool {
	for _, c := range g.claims {
		if c.by == lifecycle.ByTransfer && !c.after(step) {
			return true
		}
	}
	return false
}

// written is hard case 1.
func (o *oracle) written(g *generation) bool { return o.writtenBy(g, lifecycle.Opt[int64]{}) }

// writtenBy is written, leaving out claims of a step later than the one given.
func (o *oracle) writtenBy(g *generation, step lifecycle.Opt[int64]) bool {
	return o.claimedBy(g, step) || g.allBytes() || o.stagedEnough(g)
}

// claimedBy is the same by claims alone: only they are of a step.
func (o *oracle) claimedBy(g *generation, step lifecycle.Opt[int64]) bool {
	seen := o.seesPage(g)
	for _, c := range g.claims {
		if c.by == lifecycle.ByTransfer && seen {
			continue
		}
		if !c.after(step) {
			return true
		}
	}
	return false
}

// accuses reports whether it means something that a page is not written (hard
// case 2).
func (o *oracle) accuses(g *generation) bool {
	if g.unknown {
		return false
	}
	p := g.page.pool
	return o.seesPage(g) || p.inst.promises(p, lifecycle.PagesWritten)
}

// piece is a part of the bytes of a bytes_moved: in a page, or (page nil) in a
// staging buffer.
type piece struct {
	page     *page
	pool     *pool
	region   int
	addr     uint64
	from, to uint64 // in the page; addresses where there is none
}

// pieces maps addresses of an instance's memory to the pages there.
func (o *oracle) pieces(inst string, addr, bytes uint64) (pieces []piece) {
	for _, p := range o.inst(inst).pools {
		for n, r := range p.spec.Regions {
			first, last, any := pagesAt(p, r, addr, bytes)
			if !any {
				continue
			}
			if staging(r) {
				end := r.Base + uint64(p.spec.Pages)*r.Stride
				pieces = append(pieces, piece{nil, p, n, max(addr, r.Base), max(addr, r.Base), min(addr+bytes, end)})
				continue
			}
			for no := first; no <= last; no++ {
				start := r.Base + no*r.Stride
				from, to := max(addr, start), min(addr+bytes, start+r.Bytes)
				if from < to && !p.null.covers(no, no+1) {
					pieces = append(pieces, piece{p.page(uint32(no)), p, n, from, from - start, to - start})
				}
			}
		}
	}
	sortPieces(pieces)
	return pieces
}

// pagesAt are the pages whose stride some of the bytes lie in.
func pagesAt(p *pool, r lifecycle.Region, addr, bytes uint64) (first, last uint64, any bool) {
	end := r.Base + uint64(p.spec.Pages)*r.Stride
	if bytes == 0 || p.spec.Pages == 0 || r.Stride == 0 || addr >= end || addr+bytes <= r.Base {
		return 0, 0, false
	}
	first = (max(addr, r.Base) - r.Base) / r.Stride
	last = (min(addr+bytes, end) - 1 - r.Base) / r.Stride
	return first, last, true
}
