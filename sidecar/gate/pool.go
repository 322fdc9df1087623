package gate

import (
	"fmt"
	"strings"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/sidecar/source/engineinfo"
)

// pool compares each pool with each context that is declared anywhere: a prompt
// between the two must be refused by somebody, and nobody may think that he is to.
func pool(p *Picture) (all []Check) {
	if len(p.Engines) == 0 {
		return []Check{{
			Name: "pool.engines", Status: Unchecked, Asked: "which engines there are", Expected: "at least one", Found: "none was named",
			Mend: "name every prefill and decode engine, not only the router",
		}}
	}
	for i := range p.Engines {
		all = append(all, context(&p.Engines[i]))
		if len(p.Engines[i].Info.Sub) > 0 {
			all = append(all, subPools(&p.Engines[i]))
		}
	}
	for i := range p.Engines {
		for j := range p.Engines {
			a, b := &p.Engines[i], &p.Engines[j]
			if a.Role != engineinfo.Prefill || b.Role != engineinfo.Decode {
				continue
			}
			all = append(all, peerContext(a, b), peerContext(b, a), peerSize(a, b), layout(a, b))
		}
	}
	return all
}

func tokens(n lifecycle.Opt[int64]) string {
	if !n.Has {
		return "unknown"
	}
	return fmt.Sprintf("%d tokens", n.V)
}

// said is what an engine says of its pool.
func said(e *Engine) string {
	text := fmt.Sprintf("a pool of %s and a context of %s", tokens(e.Info.Pool), tokens(e.Info.Longest()))
	if e.Info.Null > 0 {
		text += fmt.Sprintf(" (%d tokens of the pool are never handed out, and taken off)", e.Info.Null)
	}
	if len(e.Missing) > 0 {
		text += "; not answered: " + strings.Join(e.Missing, "; ")
	}
	return text
}

const mendPool = "lower the context to what the pool holds, or enlarge the pool: memory share, quantisation of the cache, parallelism; the provider of the incident went to twice the context"

// context: the engine's own pool holds its own context.
func context(e *Engine) Check {
	c := Check{
		Name: "pool.context", On: e.Name, Asked: "does the pool hold the longest context that the engine takes?",
		Expected: "a pool of at least " + tokens(e.Info.Longest()), Found: said(e), Mend: mendPool,
	}
	switch pool, longest := e.Info.Pool, e.Info.Longest(); {
	case !pool.Has || !longest.Has:
		c.Status = Unchecked
		c.Mend = "let the engine say it: /server_info and /v1/models (SGLang), /v1/models and /metrics (vLLM); SGLang shows metrics with --enable-metrics"
	default:
		c.Status = failing(pool.V < longest.V)
	}
	return c
}

// subPools are shown; a window or a state owes less than every token, and how much is
// not said.
func subPools(e *Engine) Check {
	var names []string
	for _, s := range e.Info.Sub {
		names = append(names, fmt.Sprintf("%s of %d tokens", s.Name, s.Tokens))
	}
	return Check{
		Name: "pool.sub", On: e.Name, Asked: "which pools are there beside the one that holds every token?",
		Expected: "each holds something", Found: strings.Join(names, ", "), Mend: "give the pool memory",
		Status: failing(func() bool {
			for _, s := range e.Info.Sub {
				if s.Tokens == 0 {
					return true
				}
			}
			return false
		}()),
	}
}

// peerContext: e's pool holds the context that a peer takes prompts of.
func peerContext(e, peer *Engine) Check {
	c := Check{
		Name: "pool.peer_context", On: e.Name + " for " + peer.Name, Asked: "does the pool hold the longest context that the peer takes?",
		Expected: "a pool of at least " + tokens(peer.Info.Longest()), Found: said(e), Mend: mendPool + "; set the context alike on both",
	}
	if !e.Info.Pool.Has || !peer.Info.Longest().Has {
		c.Status = Unchecked
		return c
	}
	c.Status = failing(e.Info.Pool.V < peer.Info.Longest().V)
	return c
}

// peerSize: decode reserves no prompt that prefill cannot compute.
func peerSize(prefill, decode *Engine) Check {
	longest := decode.Info.Longest()
	if own := prefill.Info.Longest(); own.Has && own.V > longest.Or(0) {
		longest = own
	}
	c := Check{
		Name: "pool.peer_size", On: decode.Name + " from " + prefill.Name,
		Asked:    "can decode reserve what prefill cannot compute?",
		Expected: "a decode pool no larger than prefill's, or a context that both hold",
		Found:    fmt.Sprintf("decode %s, prefill %s, context %s", tokens(decode.Info.Pool), tokens(prefill.Info.Pool), tokens(longest)),
		Mend:     mendPool,
	}
	switch d, p := decode.Info.Pool, prefill.Info.Pool; {
	case !d.Has || !p.Has:
		c.Status = Unchecked
	default:
		c.Status = failing(d.V > p.V && (!longest.Has || longest.V > p.V))
	}
	return c
}

// layout: the bytes of a page mean the same on both sides.
func layout(a, b *Engine) Check {
	show := func(e *Engine) string {
		dtype := e.Info.DType
		if dtype == "" {
			dtype = "an unknown type"
		}
		return fmt.Sprintf("pages of %s of %s", tokens(e.Info.PageTokens), dtype)
	}
	c := Check{
		Name: "pool.layout", On: a.Name + " and " + b.Name, Asked: "does a page mean the same on both sides?",
		Expected: "equal tokens of a page, and equal types", Found: show(a) + "; " + show(b),
		Mend: "start both with one --page-size (or --block-size) and one --kv-cache-dtype",
	}
	switch x, y := &a.Info, &b.Info; {
	case !x.PageTokens.Has || !y.PageTokens.Has:
		c.Status = Unchecked
	default:
		c.Status = failing(x.PageTokens != y.PageTokens || x.DType != "" && y.DType != "" && x.DType != y.DType)
	}
	return c
}
