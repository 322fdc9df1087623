package follow

import (
	"context"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/sidecar/intake"
	"github.com/kvwitness/kvwitness/sidecar/source/engineinfo"
)

// announcer hands on what an engine without a lifecycle stream says of itself over
// HTTP: its pools, as pool_opened with src http, and its protections. Such an engine
// is known by its configured name: on the wire it has another, and there its pools
// have regions, which it does not name here. It is pollOn's alone but for its source.
type announcer struct {
	source *intake.Source
	epoch  uint64
	said   said
}

// said is what was announced last.
type said struct {
	pool, page, context, started lifecycle.Opt[int64]
	null                         int64
	sub                          string
	states                       [engineinfo.NumProtection]lifecycle.Opt[lifecycle.State]
}

// announce tells of an engine's pools once, and again when they change or it was
// started anew, and of each protection when its state changes.
func (f *Follower) announce(ctx context.Context, info *engineinfo.Info) {
	if f.cfg.Instance != "" || info.Instance != "" || info.Kind == engineinfo.UnknownKind {
		return
	}
	if f.cfg.Streamless != nil {
		f.cfg.Streamless()
	}
	a := &f.http
	if a.source == nil {
		f.mu.Lock()
		a.source = f.in.Open(f.cfg.Name, func() intake.Standing { return intake.Away })
		f.mu.Unlock()
	}
	now := said{pool: info.Pool, page: info.PageTokens, context: info.Longest(), started: info.Started, null: info.Null, states: a.said.states}
	for _, s := range info.Sub {
		now.sub += s.Name + ";"
	}
	if pools := a.pools(info); now != a.said && pools != nil {
		a.epoch = max(a.epoch+1, uint64(info.Started.Or(0)))
		for _, fact := range pools {
			f.say(ctx, fact)
		}
		now.states = said{}.states // what it says of its protections is of this start
		a.said = now
	}
	f.announceProtections(ctx, info)
}

func (f *Follower) announceProtections(ctx context.Context, info *engineinfo.Info) {
	a := &f.http
	for i, p := range info.Protections {
		state := lifecycle.Opt[lifecycle.State]{V: p.State(), Has: p.Said}
		if state == a.said.states[i] || !state.Has {
			continue
		}
		a.said.states[i] = state
		f.say(ctx, &lifecycle.Fact{Ev: lifecycle.Protection, Protection: engineinfo.Protections[i], State: state.V})
	}
}

// say hands a fact on, as said now by the engine over HTTP.
func (f *Follower) say(ctx context.Context, fact *lifecycle.Fact) {
	if fact.Spec != nil && int(fact.Spec.Pages) > f.cfg.Pages {
		f.lost[TooManyPages].Add(1)
		f.httpRefused.Add(1)
		return
	}
	fact.T, fact.Node, fact.Inst, fact.Src = f.cfg.Now(), f.cfg.Node, f.cfg.Name, lifecycle.HTTP
	fact.Epoch = lifecycle.Some(f.http.epoch)
	f.http.source.Put(ctx, fact)
}

// pools are an engine's pools as facts; nil: it did not say how large they are.
func (a *announcer) pools(info *engineinfo.Info) (all []*lifecycle.Fact) {
	page := info.PageTokens.Or(1)
	if !info.Pool.Has || page < 1 {
		return nil
	}
	open := func(name string, tokens, null int64, owes lifecycle.Owes) {
		pages, nulls := tokens/page+null/page, null/page
		if pages < 1 || pages > lifecycle.MaxPages {
			return
		}
		spec := &lifecycle.PoolSpec{
			Pages: uint32(pages), PageTokens: page, Role: name, Owes: owes, Since: lifecycle.SinceAttach, DType: info.DType,
		}
		if nulls > 0 {
			spec.NullIDs = lifecycle.Runs{{First: 0, Count: uint32(nulls)}}
		}
		if owes == lifecycle.OwesAll {
			spec.ContextTokens = info.Longest()
		}
		all = append(all, &lifecycle.Fact{Ev: lifecycle.PoolOpened, Pool: name, Spec: spec})
	}
	open("kv", info.Pool.V, info.Null, lifecycle.OwesAll)
	for _, s := range info.Sub {
		open(s.Name, s.Tokens, 0, lifecycle.OwesNone)
	}
	return all
}

// addAnnounced counts what was announced. f.mu is held.
func (f *Follower) addAnnounced(s *Status) {
	refused := f.httpRefused.Load()
	s.Seen += refused
	if f.http.source == nil {
		return
	}
	q := f.http.source.Stats()
	s.Seen += q.Put
	s.Handled += q.Taken
	s.Queue.Waiting += q.Waiting
	for l, n := range q.Lost {
		s.Lost[firstOfIntake+Loss(l)] += n
	}
}
