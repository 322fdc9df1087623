package engineinfo

import "time"

// sum brings together what the endpoints said.
func (p *Poll) sum() {
	p.Fresh = false
	stale := false
	for e, err := range p.Errors {
		if err != nil {
			p.Failed[e]++
			stale = stale || p.OK[e] > 0
			continue
		}
		p.OK[e]++
		p.Fresh = true
		p.At = time.Now()
	}
	p.Fresh = p.Fresh && !stale
	s, m, x := &p.server, &p.models, &p.metrics
	p.Info = Info{
		Kind: first(s.kind, x.kind, m.kind), Version: s.version, Role: s.role, Pool: least(s.pool, x.pool), Null: x.null, Sub: x.sub,
		Context: s.context, Effective: m.longest, MaxInput: s.maxInput, DType: s.dtype, Ranks: max(s.ranks, x.ranks),
		Started: x.started, Drill: s.drill, Protections: s.protections, Instance: s.instance, Events: s.events,
		Preempted: x.preempted, Held: x.held,
	}
	if p.PageTokens = s.page; !p.PageTokens.Has {
		p.PageTokens = x.page
	}
	if !p.Context.Has {
		p.Context = x.context
	}
	if p.DType == "" {
		p.DType = x.dtype
	}
	for i := range p.Protections {
		p.Protections[i].Ran = max(p.Protections[i].Ran, x.protect[i].Ran)
	}
}

// first is the first kind that is known.
func first(all ...Kind) Kind {
	for _, k := range all {
		if k != UnknownKind {
			return k
		}
	}
	return UnknownKind
}
