package oracle

import (
	"cmp"
	"slices"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/sidecar/finding"
)

// party is who broke a rule, as far as known.
type party struct {
	inst string
	id   string
	req  *request
	room *room
}

// charges are the findings of one fact: one a kind, request and pool, its
// pages merged (hard case 14).
type charges struct {
	o    *oracle
	list []*charge
}

func (o *oracle) charges() *charges { return &charges{o: o} }

func (c *charges) has(kind finding.Kind) bool {
	return slices.ContainsFunc(c.list, func(ch *charge) bool { return ch.kind == kind })
}

type charge struct {
	kind               finding.Kind
	fact               *lifecycle.Fact
	who                party
	pool               string
	pages              []struck
	has                map[*page]bool
	victims            []*request
	claim, observation string
}

// struck is a page of a charge, and whose data lay there at that moment.
type struck struct {
	page *page
	lay  *content
}

func (c *charges) of(k finding.Kind, f *lifecycle.Fact, who party, pool string) *charge {
	for _, ch := range c.list {
		if ch.kind == k && ch.who == who && ch.pool == pool {
			return ch
		}
	}
	ch := &charge{kind: k, fact: f, who: who, pool: pool, has: map[*page]bool{}}
	c.list = append(c.list, ch)
	return ch
}

// strike adds a page, once.
func (ch *charge) strike(s struck) {
	if !ch.has[s.page] {
		ch.has[s.page] = true
		ch.pages = append(ch.pages, s)
	}
}

// page adds a page to a charge. Whoever else holds it is hit by it.
func (c *charges) page(ch *charge, pg *page) { c.generation(ch, pg.gen) }

// generation adds a page as it was in one generation. If that is over, nobody
// holds it any more.
func (c *charges) generation(ch *charge, g *generation) {
	pg := g.page
	if ch.has[pg] {
		return
	}
	ch.strike(struck{pg, c.o.lies(g)})
	if pg.gen != g {
		return
	}
	for _, ref := range pg.refs {
		if ref.req != nil && ref.req != ch.who.req {
			ch.victims = append(ch.victims, ref.req)
		}
	}
}

// add is of and page in one.
func (c *charges) add(k finding.Kind, f *lifecycle.Fact, who party, pg *page, claim, observation string) {
	ch := c.of(k, f, who, pg.pool.name)
	ch.claim, ch.observation = claim, observation
	c.page(ch, pg)
}

// by is the party that a fact about a request speaks of.
func (o *oracle) by(f *lifecycle.Fact) party {
	p := party{inst: f.Inst, id: f.Req, req: o.who(f)}
	if p.req != nil {
		p.id, p.room = cmp.Or(p.id, p.req.id), p.req.room
	}
	if p.room == nil && f.Room != "" {
		p.room = o.rooms[f.Room]
	}
	return p
}

func partyOf(r *request) party {
	return party{inst: r.inst.name, id: r.name(), req: r, room: r.room}
}

func (o *oracle) handoffParty(h *handoff) party {
	return o.takerOf(h.room, h.receiver)
}

// takerOf is a room's request on an instance.
func (o *oracle) takerOf(r *room, inst string) party {
	p := party{inst: inst, req: r.at[inst], room: r}
	p.id = p.req.name()
	return p
}

// merge adds the charges of another list, pages to their like.
func (c *charges) merge(others *charges) {
	for _, x := range others.list {
		ch := c.of(x.kind, x.fact, x.who, x.pool)
		ch.claim, ch.observation = x.claim, x.observation
		ch.victims = append(ch.victims, x.victims...)
		for _, p := range x.pages {
			ch.strike(p)
		}
	}
}

// saying is a finding that was said, and whom it makes violated.
type saying struct {
	finding finding.Finding
	req     *request
	room    *room
	victims []*request
}

// say turns charges into findings.
func (o *oracle) say(c *charges) {
	for _, ch := range c.list {
		o.said = append(o.said, o.saying(ch))
	}
}

func (o *oracle) saying(ch *charge) *saying {
	f := finding.Finding{
		Kind: ch.kind, Severity: ch.kind.Severity(), T: ch.fact.T, Node: ch.fact.Node,
		Inst: ch.who.inst, Req: ch.who.id, Pool: ch.pool,
		Claim: ch.claim, Observation: ch.observation,
	}
	if ch.who.room != nil {
		f.Room = ch.who.room.id
		f.Synthetic = ch.who.room.synthetic
	}
	if ch.who.req != nil && ch.who.req.synthetic {
		f.Synthetic = true
	}
	s := &saying{req: ch.who.req, room: ch.who.room}
	var nos []uint32
	for _, p := range ch.pages {
		nos = append(nos, p.page.no)
		if p.lay != nil && (p.lay.writer != ch.who.req || ch.who.req == nil) {
			f.Exposed = append(f.Exposed, p.lay.party()) // nobody is exposed to himself
		}
	}
	if ch.kind.Severity() == finding.Critical {
		s.victims = ch.victims
	}
	f.Pages = finding.Pages(runsOf(nos))
	f.Exposed = unique(f.Exposed)
	s.finding = f
	return s
}

func runsOf(pages []uint32) (runs lifecycle.Runs) {
	slices.Sort(pages)
	for _, no := range pages {
		runs = runs.Append(no)
	}
	return runs
}

// unique sorts parties by instance, request and domain, the unknown one first.
func unique(parties []finding.Party) []finding.Party {
	slices.SortFunc(parties, func(a, b finding.Party) int {
		known := func(p finding.Party) int {
			if p.Domain.Has {
				return 1
			}
			return 0
		}
		return cmp.Or(cmp.Compare(a.Inst, b.Inst), cmp.Compare(a.Req, b.Req),
			cmp.Compare(known(a), known(b)), cmp.Compare(a.Domain.V, b.Domain.V))
	})
	return slices.Compact(parties)
}

func (o *oracle) findings() (all []finding.Finding) {
	for _, s := range o.said {
		all = append(all, s.finding)
	}
	return all
}
