package oracle

import (
	"math/big"
	"strings"

	"github.com/kvwitness/kvwitness/sidecar/finding"
)

// layoutMismatch charges a pool whose counterpart at a peer differs in what must
// be equal (R25).
func (o *oracle) layoutMismatch(e *entry, p *pool, peer *instance, c *charges) {
	q := counterpart(p, peer)
	if q == nil {
		return
	}
	if differs := layoutDiffers(p, q); differs != "" {
		own := p
		if q.inst.name == e.Inst {
			own = q
		}
		ch := c.of(finding.LayoutMismatch, e.Fact, party{inst: own.inst.name}, own.name)
		ch.claim, ch.observation = "two pools are peers", "they differ in "+differs
	}
}

// counterpart is the pool of a peer of the same name, else of the same role, if
// there is but one such on either side.
func counterpart(p *pool, peer *instance) *pool {
	if q := peer.pools[p.name]; q != nil {
		return q
	}
	alike := func(has, other *instance) (pools []*pool) {
		for _, q := range has.pools {
			if other.pools[q.name] == nil && q.spec.Role == p.spec.Role {
				pools = append(pools, q)
			}
		}
		return pools
	}
	if there := alike(peer, p.inst); p.spec.Role != "" && len(there) == 1 && len(alike(p.inst, peer)) == 1 {
		return there[0]
	}
	return nil
}

func layoutDiffers(p, q *pool) string {
	a, b := p.spec, q.spec
	switch {
	case !p.tokensUnsaid && !q.tokensUnsaid && a.PageTokens != b.PageTokens:
		return "the tokens of a page"
	case a.DType != "" && b.DType != "" && dtype(a.DType) != dtype(b.DType):
		return "the type of their numbers"
	}
	x, y := p.tokenBytes(), q.tokenBytes()
	if x != nil && y != nil && x.Cmp(y) != 0 {
		return "the bytes of a token, layer and head"
	}
	return ""
}

var dtypes = map[string]string{
	"bf16": "bfloat16",
	"fp16": "float16", "half": "float16",
	"fp8": "float8_e4m3fn", "fp8_e4m3": "float8_e4m3fn",
	"fp8_e5m2": "float8_e5m2",
}

func dtype(name string) string {
	name = strings.ToLower(name)
	if full, short := dtypes[name]; short {
		return full
	}
	return name
}

// tokenBytes is the bytes of one token, layer and head; nil where not said.
func (p *pool) tokenBytes() *big.Rat {
	s := p.spec
	if s.PageBytes == 0 || p.tokensUnsaid || !s.Layers.Has || s.Layers.V.Count == 0 || s.KVHeads <= 0 {
		return nil
	}
	parts := new(big.Int).Mul(big.NewInt(s.PageTokens), big.NewInt(int64(s.Layers.V.Count)))
	parts.Mul(parts, big.NewInt(s.KVHeads))
	return new(big.Rat).SetFrac(new(big.Int).SetUint64(s.PageBytes), parts)
}
