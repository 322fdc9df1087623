package ledger

import (
	"fmt"
	"math/big"
	"strings"

	"github.com/kvwitness/kvwitness/sidecar/finding"
)

// meet compares two instances when a transfer joins them, the first since both
// have pools; inst is the one that the fact is about.
func (l *Ledger) meet(inst, peer *instance) {
	if _, met := inst.layoutSeen[peer]; met || len(inst.byName) == 0 || len(peer.byName) == 0 {
		return
	}
	if len(inst.layoutSeen) >= l.cfg.Limits.Peers || len(peer.layoutSeen) >= l.cfg.Limits.Peers {
		l.stats.Forgotten.Peers++
		return
	}
	inst.layoutSeen[peer], peer.layoutSeen[inst] = struct{}{}, struct{}{}
	for _, pl := range inst.pools {
		if pl != nil {
			l.compare(inst, peer, pl)
		}
	}
	for _, pl := range peer.pools {
		if pl != nil {
			l.capacityOfPeer(pl, inst)
		}
	}
}

// compare asks whether pl of inst fits what a peer has and declares.
func (l *Ledger) compare(inst, peer *instance, pl *pool) {
	l.capacityOfPeer(pl, peer)
	if other := pl.counterpart(peer); other != nil {
		l.layoutMismatch(inst, pl, other)
	}
}

// counterpart is the pool of equal name on a peer, else that of equal role, where
// either has but one of it that is no namesake of the other's: the pool of a
// draft model is not that of the model.
func (pl *pool) counterpart(peer *instance) *pool {
	if other := peer.byName[pl.name]; other != nil {
		return other
	}
	if pl.Role == "" || pl.inst.only(pl.Role, peer) != pl {
		return nil
	}
	return peer.only(pl.Role, pl.inst)
}

// only is the one pool of a role that has no namesake on a peer; nil where there
// are several, or none.
func (i *instance) only(role string, peer *instance) (one *pool) {
	for _, pl := range i.pools {
		if pl == nil || pl.Role != role || peer.byName[pl.name] != nil {
			continue
		}
		if one != nil {
			return nil
		}
		one = pl
	}
	return one
}

// layoutMismatch: peers differ in what must be equal for the bytes to mean the
// same: page tokens, normalised dtype, bytes of one token, layer and head.
func (l *Ledger) layoutMismatch(inst *instance, a, b *pool) {
	var claim, seen []string
	differ := func(what string, x, y any) {
		claim = append(claim, fmt.Sprintf("%s %v", what, x))
		seen = append(seen, fmt.Sprintf("%s %v on %s", what, y, b.inst.name))
	}
	if a.PageTokens != b.PageTokens && a.saysTokens() && b.saysTokens() {
		differ("page tokens", a.PageTokens, b.PageTokens)
	}
	if x, y := dtype(a.DType), dtype(b.DType); x != "" && y != "" && x != y {
		differ("dtype", x, y)
	}
	if unequalUnits(a, b) {
		differ("bytes a token, layer and head", perHead(a), perHead(b))
	}
	if claim != nil {
		l.accuse(finding.LayoutMismatch, inst, nil, nil, a).say(strings.Join(claim, ", "), strings.Join(seen, ", "))
	}
}

// dtypes are names of the same format, as engines spell them.
var dtypes = map[string]string{
	"bfloat16": "bf16", "float16": "fp16", "half": "fp16", "float32": "fp32", "float": "fp32",
	"fp8": "fp8_e4m3", "float8_e4m3fn": "fp8_e4m3", "float8_e4m3": "fp8_e4m3", "fp8_e4m3fn": "fp8_e4m3",
	"float8_e5m2": "fp8_e5m2",
}

func dtype(name string) string {
	name = strings.TrimPrefix(strings.ToLower(name), "torch.")
	if same := dtypes[name]; same != "" {
		return same
	}
	return name
}

// perHead is bytes of one token, layer and head; 0 where not all is said.
func perHead(pl *pool) float64 {
	if pl.PageBytes == 0 || !pl.saysTokens() || !pl.Layers.Has || pl.KVHeads == 0 {
		return 0
	}
	return float64(pl.PageBytes) / float64(pl.PageTokens) / float64(pl.Layers.V.Count) / float64(pl.KVHeads)
}

// unequalUnits compares perHead exactly, by cross multiplication.
func unequalUnits(a, b *pool) bool {
	if perHead(a) == 0 || perHead(b) == 0 {
		return false
	}
	return times(a.PageBytes, b).Cmp(times(b.PageBytes, a)) != 0
}

// times is n times what a page of pl is divided by.
func times(n uint64, pl *pool) *big.Int {
	product := new(big.Int).SetUint64(n)
	for _, factor := range [...]int64{pl.PageTokens, int64(pl.Layers.V.Count), pl.KVHeads} {
		product.Mul(product, big.NewInt(factor))
	}
	return product
}
