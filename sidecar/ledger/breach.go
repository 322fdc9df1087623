package ledger

import (
	"cmp"
	"slices"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/sidecar/finding"
)

// breach is a finding in the making: one kind, one request, one pool, the
// pages merged (hard case 14).
type breach struct {
	kind    finding.Kind
	inst    *instance
	req     *request
	room    *room
	pool    *pool
	pages   []uint32
	exposed []finding.Party
	claim   string
	seen    string
	asOf    uint64 // tick at which it happened, 0: now
	before  bool   // it happened before, when these had the pages too
	holders []*request
}

// accuse finds or begins the breach of that kind, request and pool, for the
// rule to add pages and say both sides. Nothing is published until settle;
// check passes throw breaches away. req, rm and pl may be nil.
func (l *Ledger) accuse(kind finding.Kind, inst *instance, req *request, rm *room, pl *pool) *breach {
	if req != nil {
		rm = req.room
	}
	for i := range l.breaches {
		b := &l.breaches[i]
		if b.kind == kind && b.inst == inst && b.req == req && b.room == rm && b.pool == pl {
			return b
		}
	}
	l.breaches = append(l.breaches, breach{kind: kind, inst: inst, req: req, room: rm, pool: pl})
	return &l.breaches[len(l.breaches)-1]
}

// on adds a page and whose data lay in it.
func (b *breach) on(l *Ledger, at uint32, whose partyID) *breach {
	b.pages = append(b.pages, at)
	if p, known := l.others(b.req, whose); known {
		b.expose(p)
	}
	return b
}

// others shows a party, unless it is the request itself: a request's own data
// are not exposed to it.
func (l *Ledger) others(r *request, whose partyID) (finding.Party, bool) {
	if r != nil && r.party == whose {
		return finding.Party{}, false
	}
	return l.parties.show(whose)
}

func (b *breach) expose(p finding.Party) {
	if !slices.Contains(b.exposed, p) {
		b.exposed = append(b.exposed, p)
	}
}

// say sets the two sides, once.
func (b *breach) say(claim, seen string) {
	if b.claim == "" && b.seen == "" {
		b.claim, b.seen = claim, seen
	}
}

// settle turns the breaches of fact f into findings, the strongest first, and
// marks who is violated by them.
func (l *Ledger) settle(f *lifecycle.Fact) {
	if len(l.breaches) > 0 {
		l.settleAt(f.T, f.Node)
	}
}

func (l *Ledger) settleAt(t int64, node string) {
	if len(l.breaches) == 0 {
		return
	}
	slices.SortStableFunc(l.breaches, func(a, b breach) int { return cmp.Compare(a.kind, b.kind) })
	for i := range l.breaches {
		l.publish(&l.breaches[i], t, node)
	}
	l.breaches = l.breaches[:0]
}

func (l *Ledger) publish(b *breach, t int64, node string) {
	f := finding.Finding{
		Kind: b.kind, Severity: b.kind.Severity(), T: t, Node: node,
		Pages: finding.Pages(runsOf(b.pages)), Claim: b.claim, Observation: b.seen,
	}
	if b.inst != nil {
		f.Inst = b.inst.name
	}
	if b.req != nil {
		f.Req, f.Synthetic = b.req.id, b.req.synthetic
	}
	if b.room != nil {
		f.Room = b.room.id
		f.Synthetic = f.Synthetic || b.room.synthetic
	}
	if b.pool != nil {
		f.Pool = b.pool.name
	}
	slices.SortFunc(b.exposed, compareParties)
	f.Exposed = b.exposed
	l.out = append(l.out, f)
	l.stats.Findings[b.kind]++
	l.blame(b)
}

func compareParties(a, b finding.Party) int {
	return cmp.Or(cmp.Compare(a.Inst, b.Inst), cmp.Compare(a.Req, b.Req), cmp.Compare(a.Domain.V, b.Domain.V))
}

// blame makes the request violated, and with a critical finding also those
// whose pages it hit (hard case 8, victims).
func (l *Ledger) blame(b *breach) {
	if b.kind.Severity() == finding.Warning {
		return
	}
	if b.room != nil {
		l.violate(b.room, b.kind.String())
	}
	if b.kind.Severity() != finding.Critical || b.pool == nil || b.kind == finding.ShortHandoff {
		return // who shares a page that a handoff lacks is asked when it reads it
	}
	if b.before {
		for _, r := range b.holders {
			l.violate(r.room, "victim of "+b.kind.String())
		}
		return
	}
	for _, at := range b.pages {
		if b.asOf != 0 && b.pool.pages[at].born > b.asOf {
			continue // who holds it now came later
		}
		l.eachHolder(b.pool, at, func(r *request) {
			if r != b.req {
				l.violate(r.room, "victim of "+b.kind.String())
			}
		})
	}
}

func (l *Ledger) violate(rm *room, why string) {
	if rm.violated == "" {
		rm.violated = why
	}
	l.revise(rm)
}

// runsOf merges pages into sorted runs.
func runsOf(pages []uint32) lifecycle.Runs {
	slices.Sort(pages)
	var runs lifecycle.Runs
	for i, at := range pages {
		if i > 0 && at == pages[i-1] {
			continue
		}
		runs = runs.Append(at)
	}
	return runs
}
