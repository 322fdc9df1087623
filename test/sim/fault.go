package sim

import (
	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/sidecar/finding"
)

// Fault is one way to break one rule. Where it can be put in, and how, stands
// in the method that asks strikes for its name.
type Fault struct {
	Name   string // kind/variant
	Kind   finding.Kind
	Beside []finding.Kind // what may follow from the same fault
	Mixes  []string       // where it can be put in
}

// Want is the finding that a fault deserves. Pages are pages that it must
// name; an empty Inst, Req, Room or Pool is not compared.
type Want struct {
	Kind      finding.Kind
	Inst      string
	Req, Room string
	Pool      string
	Pages     lifecycle.Runs
}

// Strike is one fault put into one trace.
type Strike struct {
	Fault *Fault
	Skip  int // opportunities to let pass
	Seen  int // opportunities so far
	Done  bool
	Want  Want
	of    []string // the requests that it is of
	meets string   // the instance that must take part in a transfer for the fault to show
	// tardy is the fact that comes too late: it shows if one of a higher number was
	// applied before it came.
	tardy *lifecycle.Fact
}

// strikes reports whether the fault of that name is put in here and now. It
// is asked where the fault is possible, and takes nothing from the
// simulation's own chance, so that a trace is the same up to its fault.
func (s *Sim) strikes(name string) bool {
	k := s.Strike
	if k == nil || k.Fault.Name != name || s.givenUp {
		return false
	}
	k.Seen++
	if k.Done || k.Seen <= k.Skip {
		return false
	}
	k.Done = true
	k.Want.Kind = k.Fault.Kind
	if s.acting != nil {
		k.of = append(k.of, s.acting.id)
	}
	return true
}

// arms reports whether that fault is still to be put in: for sites that are
// costly to find.
func (s *Sim) arms(name string) bool {
	k := s.Strike
	return k != nil && !k.Done && k.Fault.Name == name && !s.givenUp
}

// want notes what the fault deserves.
func (s *Sim) want(in *instance, req, room, pool string, pages ...uint32) {
	w := &s.Strike.Want
	w.Inst, w.Req, w.Room, w.Pool = in.name, req, room, pool
	if len(pages) > 0 {
		w.Pages = runs(pages)
		s.hard(14, "a finding of several pages")
	}
}

// spare keeps a struck request from being aborted before the fault shows.
func (r *request) spare() { r.doom = 0 }

var (
	everywhere = []string{"unified", "disagg-claims", "disagg-observed", "multi-rank", "mixed"}
	handoffs   = []string{"disagg-claims", "disagg-observed", "multi-rank", "mixed"}
	witnessed  = []string{"disagg-observed", "wire-only", "multi-rank", "mixed"}
)

// Faults are all the faults that can be put in.
func Faults() []Fault {
	const (
		stale, foreign, short, claim  = finding.StaleRead, finding.ForeignPage, finding.ShortHandoff, finding.ClaimMismatch
		early, hold, release, rejects = finding.EarlyRelease, finding.DoubleHold, finding.DoubleRelease, finding.RejectedHandoff
		late, pools, tenant           = finding.WriteAfterRelease, finding.PoolImbalance, finding.TenantCrossing
	)
	also := func(kinds ...finding.Kind) []finding.Kind { return kinds }
	return []Fault{
		// A page that is missing may be cached and shared: who recomputes the rest of
		// its prompt after a rejection has then not recomputed all that it reads.
		{"stale_read/attention", stale, also(rejects), everywhere},
		{"stale_read/source", stale, also(short), handoffs},
		{"foreign_page/reader", foreign, also(rejects), everywhere},
		{"foreign_page/freed", foreign, nil, everywhere},
		{"foreign_page/writer", foreign, nil, everywhere},
		{"foreign_page/target", foreign, also(short, claim, early, stale), handoffs},
		{"foreign_page/source", foreign, also(claim, early, stale), handoffs},
		{"foreign_page/bytes", foreign, nil, []string{"disagg-observed", "multi-rank"}},
		{"tenant_crossing/shared", tenant, nil, []string{"unified", "disagg-claims", "disagg-observed"}},
		{"wrong_block/key", finding.WrongBlock, nil, []string{"unified", "disagg-claims", "disagg-observed"}},
		{"short_handoff/pages", short, also(stale, rejects), []string{"disagg-claims"}},
		{"short_handoff/incident", short, also(stale, claim, rejects), []string{"disagg-claims", "disagg-observed"}},
		{"short_handoff/tokens", short, nil, handoffs},
		{"short_handoff/bytes", short, also(stale, claim, rejects), witnessed},
		{"write_after_release/free", late, nil, []string{"disagg-observed", "multi-rank"}},
		{"write_after_release/reassigned", late, nil, []string{"disagg-observed", "multi-rank"}},
		{"write_after_release/claimed", late, nil, everywhere},
		{"content_mismatch/digest", finding.ContentMismatch, nil, []string{"disagg-claims", "disagg-observed", "multi-rank"}},
		{"rejected_handoff/transfer", rejects, nil, handoffs},
		{"rejected_handoff/completion", rejects, also(short, stale), handoffs},
		{"rejected_handoff/success", rejects, also(short, stale), handoffs},
		{"rejected_handoff/own_transfer", rejects, also(foreign), handoffs},
		{"rejected_handoff/aborted_reserves", rejects, nil, everywhere},
		{"rejected_handoff/aborted_succeeds", rejects, also(short, claim), everywhere},
		{"rejected_handoff/aborted_transfers", rejects, nil, handoffs},
		{"early_release/target", early, nil, handoffs},
		{"early_release/source", early, nil, handoffs},
		{"early_release/reused", early, also(late, short, foreign, claim), []string{"wire-only"}},
		{"claim_mismatch/unseen", claim, also(short, stale), []string{"disagg-observed", "multi-rank", "mixed"}},
		{"claim_mismatch/prompt", claim, nil, handoffs},
		{"claim_mismatch/pages", claim, nil, handoffs},
		{"capacity_inversion/own", finding.CapacityInversion, nil, everywhere},
		{"capacity_inversion/peer", finding.CapacityInversion, nil, []string{"disagg-claims", "disagg-observed"}},
		{"layout_mismatch/dtype", finding.LayoutMismatch, nil, []string{"disagg-claims", "disagg-observed", "multi-rank"}},
		{"layout_mismatch/heads", finding.LayoutMismatch, nil, []string{"disagg-claims", "disagg-observed", "multi-rank"}},
		{"double_hold/reserved", hold, also(foreign, stale, early, release, rejects, late, short, claim, pools, tenant), everywhere},
		{"double_release/again", release, nil, everywhere},
		{"double_release/evicted", release, nil, everywhere},
		{"vram_mismatch/pool", finding.VRAMMismatch, nil, []string{"unified", "mixed"}},
		{"vram_mismatch/foreign", finding.VRAMMismatch, nil, []string{"unified", "mixed"}},
		{"pool_imbalance/sum", pools, nil, everywhere},
		{"pool_imbalance/held", pools, nil, everywhere},
		{"stalled_reservation/decode", finding.StalledReservation, nil, everywhere},
		// A drain that is lost, or too late, looks like none until the gap shows
		// (READINGS R22); so does the start that bytes were of.
		{"blind/gap", finding.Blind, also(early, finding.ForeignPage), everywhere},
		{"blind/late", finding.Blind, also(early, finding.ForeignPage), everywhere},
		{"blind/loss", finding.Blind, nil, everywhere},
		{"blind/coverage", finding.Blind, nil, []string{"disagg-observed", "multi-rank", "mixed"}},
	}
}

// FaultByName returns the fault of that name.
func FaultByName(name string) (*Fault, bool) {
	for _, f := range Faults() {
		if f.Name == name {
			return &f, true
		}
	}
	return nil, false
}

// noted remembers what pages a half ever held and a peer ever targeted: a
// fault must be the only thing that can be said of its page.
func (h *half) noted(p *pool, pages []uint32) {
	if h.in.s.Strike == nil {
		return
	}
	for _, id := range pages {
		h.had[pageRef{p, id}] = true
	}
}

type pageRef struct {
	p  *pool
	id uint32
}

// others finds a page that another request holds, and h never did.
func (h *half) others(p *pool, fits func(*page) bool) (uint32, bool) {
	for id := range p.pages {
		pg := &p.pages[id]
		if len(pg.holders) == 1 && pg.holders[0].r != h.r && !pg.unknown && !pg.null && !h.had[pageRef{p, uint32(id)}] && fits(pg) {
			return uint32(id), true
		}
	}
	return 0, false
}
