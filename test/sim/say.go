package sim

import "github.com/kvwitness/kvwitness/engine/lifecycle"

// batch collects facts of one stream that carry one t and have no order.
type batch struct {
	in    *instance
	src   lifecycle.Src
	at    int64
	facts []*lifecycle.Fact
}

// say makes a claim of the engine itself; an instance without a lifecycle
// stream says nothing.
func (in *instance) say(f lifecycle.Fact) {
	if in.engine {
		in.tell(lifecycle.Engine, in.node, f)
	}
}

// tell sends a fact about in from a source on the given node.
func (in *instance) tell(src lifecycle.Src, at *node, f lifecycle.Fact) {
	s := in.s
	f.Inst, f.Src = in.name, src
	if src == lifecycle.Engine && in.steps && !f.Step.Has {
		f.Step = lifecycle.Some(in.step())
	}
	if s.epochs && src.Claims() || f.Ev == lifecycle.PoolOpened && in.epoch > 0 {
		f.Epoch = lifecycle.Some(in.epoch)
	}
	if b := s.batch; b != nil && b.in == in && b.src == src {
		f.T, f.Node = b.at, at.name
		b.facts = append(b.facts, &f)
		return
	}
	s.now++
	f.T, f.Node = at.clock(s.now), at.name
	s.number(in, &f)
	s.post(in, &f)
}

// together says the facts of do, as far as they are of in's engine stream,
// as one batch: equal t, shuffled.
func (in *instance) together(do func()) {
	s := in.s
	if s.batch != nil || !in.engine || !s.chance(s.Mix.Batches) {
		do()
		return
	}
	s.now++
	b := &batch{in: in, src: lifecycle.Engine, at: in.node.clock(s.now)}
	s.batch = b
	do()
	s.batch = nil
	s.rng.Shuffle(len(b.facts), func(i, j int) { b.facts[i], b.facts[j] = b.facts[j], b.facts[i] })
	s.together = len(b.facts) > 1
	for _, f := range b.facts {
		s.number(in, f)
		s.post(in, f)
	}
	s.together = false
	if len(b.facts) > 1 {
		s.hard(11, "facts of one t in any order")
	}
}

// number gives the fact its place in its stream. Observations are numbered
// only where one node sees them all: two nodes would use the same numbers.
func (s *Sim) number(in *instance, f *lifecycle.Fact) {
	if !s.sequences || f.Src != lifecycle.Engine && (len(s.nodes) > 1 || f.Src == lifecycle.NVML || s.epochs) {
		return
	}
	f.Seq = lifecycle.Some(in.seqs[f.Src])
	in.seqs[f.Src]++
}

// post puts the fact on its way.
func (s *Sim) post(in *instance, f *lifecycle.Fact) {
	if s.givenUp || in.muted || s.lost(in, f) {
		return
	}
	s.said++
	if s.owners != nil && s.acting != nil && f.Ev != lifecycle.PagesEvicted {
		s.owners[f] = s.acting.id
	}
	s.arriving.push(s.now+s.delay(), f)
	if f.Seq.Has && s.chance(s.Mix.Duplicates) {
		again := *f
		if s.owners != nil {
			s.owners[&again] = s.owners[f]
		}
		s.arriving.push(s.now+s.delay()+s.between(0, 100*ms), &again)
		s.hard(11, "a fact that came twice")
	}
}

func (s *Sim) delay() int64 {
	if !s.disordered {
		return 0
	}
	s.hard(11, "facts that came out of order")
	return s.between(0, jitter)
}
