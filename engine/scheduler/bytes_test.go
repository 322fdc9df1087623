package scheduler

import (
	"fmt"
	"slices"

	"github.com/kvwitness/kvwitness/engine/kvcache"
)

// stripes: each cell has one part for each of two prefill ranks.
const stripes = 2

type cell struct {
	chain  [stripes]uint64
	domain kvcache.Domain
}

func link0(chain uint64, token int32) uint64 {
	x := (chain ^ uint64(uint32(token))) * 0x9e3779b97f4a7c15
	return x ^ x>>29
}

func chainOf(tokens []int32) (c uint64) {
	for _, t := range tokens {
		c = link0(c, t)
	}
	return c
}

func sample(chain uint64) int32 { return int32(chain%97) + 1 }

// oracle is the only right answer of n tokens.
func oracle(prompt []int32, n int) (out []int32) {
	all := slices.Clone(prompt)
	for range n {
		all = append(all, sample(chainOf(all)))
	}
	return all[len(prompt):]
}

// forward carries the launched pass out, as it finds the memory now.
func (e *engine) forward() {
	l := e.launch
	e.launch = nil
	for _, c := range l.Copies {
		copy(e.mem[c.To], e.mem[c.From])
		e.kv.Tags().Stamp(c.To, c.ToGen)
	}
	done := ForwardDone{Step: l.Step}
	for _, it := range l.Items {
		done.Results = append(done.Results, e.compute(it))
	}
	e.step(done)
}

func (e *engine) compute(it Item) Result {
	size, sb := e.kvc.PageTokens, e.subs[it.Req]
	tags, reads, from := e.kv.Tags(), e.kv.PagesFor(it.Start), it.Start/size
	if it.CheckTags {
		if f := tags.CheckRead(it.Pages[:reads], it.Gens[:reads]); f != nil {
			return Result{Fault: f}
		}
		if f := tags.CheckWrite(it.Pages[from:], it.Gens[from:]); f != nil {
			return Result{Fault: f}
		}
	}
	all := append(slices.Clone(sb.prompt), sb.out...)
	var chain, right uint64
	for i := range it.Start {
		c := e.mem[it.Pages[i/size]][i%size]
		if i < len(all) {
			right = link0(right, all[i])
		}
		for _, r := range e.ranks {
			if c.chain[r] != right || c.domain != sb.domain {
				e.w.leaks = append(e.w.leaks, fmt.Sprintf("%s read position %d of request %d: another's bytes %v, domain %q for %q",
					e.name, i, it.Req, c.chain[r] != right, c.domain, sb.domain))
			}
		}
		chain = c.chain[e.ranks[0]]
	}
	for i, tok := range it.Tokens {
		chain = link0(chain, tok)
		c := &e.mem[it.Pages[(it.Start+i)/size]][(it.Start+i)%size]
		c.domain = sb.domain
		for _, r := range e.ranks {
			c.chain[r] = chain
		}
	}
	for i := from; i < len(it.Pages); i++ {
		tags.Stamp(it.Pages[i], it.Gens[i])
	}
	return Result{Token: sample(chain)}
}

// fly carries a transfer out, whole or up to some page, and reports to both sides.
func (w *world) fly(f *flight, ok bool) {
	w.flights = slices.DeleteFunc(w.flights, func(o *flight) bool { return o == f })
	if f.conn != w.conns[pair{f.from.name, f.to.name}] {
		f.from.local = append(f.from.local, Sent{Xfer: f.Xfer})
		return
	}
	if f.CheckTags {
		if fault := f.from.kv.Tags().CheckRead(f.Source, f.SourceGens); fault != nil {
			f.from.local = append(f.from.local, Sent{Xfer: f.Xfer, Fault: fault})
			return
		}
	}
	pages := len(f.Source)
	if !ok {
		pages = w.rng.IntN(pages + 1)
	}
	w.write(f, pages)
	if ok {
		w.send(f.from.name, f.to.name, Arrived{Room: f.Room, Peer: f.from.name, First: f.First, Count: pages, Tokens: f.Tokens})
	}
	f.from.local = append(f.from.local, Sent{Xfer: f.Xfer, OK: ok})
}

func (w *world) write(f *flight, pages int) {
	key := digestKey{f.Room, pair{f.from.name, f.to.name}}
	if w.sent[key] == nil {
		w.sent[key] = map[int][]cell{}
	}
	size := f.from.kvc.PageTokens
	for i := range pages {
		tokens := size
		if i == len(f.Source)-1 {
			tokens = f.Tokens
		}
		source := slices.Clone(f.from.mem[f.Source[i]])
		w.sent[key][f.First+i] = source
		for j := range tokens {
			to := &f.to.mem[f.Target[i]][(j+f.from.shift)%size]
			to.domain = source[j].domain
			for _, r := range f.from.ranks {
				to.chain[r] = source[j].chain[r]
			}
		}
		for _, r := range f.from.ranks {
			f.to.kv.Tags().StampStripe(f.Target[i], r, f.TargetGens[i])
		}
	}
	if f.Last && pages == len(f.Source) {
		f.to.first[f.TargetSlot] = f.FirstToken
		for _, r := range f.from.ranks {
			f.to.aux.Tags().StampStripe(f.TargetSlot, r, f.TargetSlotGen)
		}
	}
}

// digestMatches compares what lies in the owed pages with what each writer sent.
func (e *engine) digestMatches(a CheckDigest) bool {
	size := e.kvc.PageTokens
	for _, p := range e.w.engines {
		sent := e.w.sent[digestKey{a.Room, pair{p.name, e.name}}]
		if p.cfg.Role != Prefill {
			continue
		}
		for i := range a.Tokens {
			source := sent[i/size]
			if source == nil {
				return false
			}
			for _, r := range p.ranks {
				if source[i%size].chain[r] != e.mem[a.Pages[i/size]][i%size].chain[r] {
					return false
				}
			}
		}
	}
	return true
}
