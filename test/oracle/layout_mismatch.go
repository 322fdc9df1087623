package oracle

import (
	"math/big"
	"strings"

	"github.com/kvwitness/kvwitness/sidecar/finding"
)

// layoutMismatch charges two peers whose pools differ in what must be equal
// (R25).
func (o *oracle) layoutMismatch(e *entry, a, b *instance, c *charges) {
	for _, p := range a.sortedPools() {
		for _, q := range counterparts(p, b) {
			if differs := layoutDiffers(p, q); differs != "" {
				own := p
				if q.inst.name == e.Inst {
					own = q
				}
				ch := c.of(finding.LayoutMismatch, e.Fact, party{inst: own.inst.name}, own.name)
				ch.claim, ch.observation = "two pools are peers", "they differ in "+differs
			}
		}
	}
}

// counterparts are the pools of a peer of the same name, else of the same
// role.
func counterparts(p *pool, peer *instance) (pools []*pool) {
	if q := peer.pools[p.name]; q != nil {
		return []*pool{q}
	}
	for _, q := range peer.sortedPools() {
		if p.inst.pools[q.name] == nil && p.spec.Role != "" && q.spec.Role == p.spec.Role {
			pools = append(pools, q)
		}
	}
	return pools
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
