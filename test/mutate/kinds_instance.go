package main

// instanceKinds are the ways in which an instance's bookkeeping can be broken:
// capacity_inversion, layout_mismatch, vram_mismatch, pool_imbalance,
// stalled_reservation and blind.
var instanceKinds = []mutant{
	{
		rule: "capacity_inversion", clause: "own", file: "requests.go",
		off: "the own pool cannot hold the context",
		old: `pl.inverted = l.capacityInversion(pl, inst, pl.ContextTokens)`,
		new: ``,
	},
	{
		rule: "capacity_inversion", clause: "of-the-peer", file: "layout_mismatch.go",
		off: "the one that speaks cannot hold its peer's context",
		old: `	l.capacityOfPeer(pl, peer)
`,
		new: ``,
	},
	{
		rule: "capacity_inversion", clause: "at-the-peer", file: "layout_mismatch.go",
		off: "the peer cannot hold the context of the one that speaks",
		old: `			l.capacityOfPeer(pl, inst)
`,
		new: `			_ = pl
`,
	},
	{
		rule: "capacity_inversion", clause: "null", file: "pool.go",
		off: "pages that are never handed out hold nothing",
		old: `return (int64(len(pl.pages)) - pl.nulls) * pl.PageTokens`,
		new: `return int64(len(pl.pages)) * pl.PageTokens`,
	},
	{
		rule: "capacity_inversion", clause: "owes-all", file: "capacity_inversion.go",
		off: "only pools that owe all must hold the context",
		old: `pl.Owes != lifecycle.OwesAll || !context.Has ||`,
		new: `pl.Owes == lifecycle.OwesNone || !context.Has ||`,
	},
	{
		rule: "capacity_inversion", clause: "once", file: "layout_mismatch.go",
		off: "once for each pair of peers",
		old: `if _, met := inst.layoutSeen[peer]; met || len(inst.byName)`,
		new: `if _, met := inst.layoutSeen[peer]; met && false || len(inst.byName)`,
	},
	{
		rule: "capacity_inversion", clause: "accused-already", file: "capacity_inversion.go",
		off: "a pool that was accused of its own context is not accused of a peer's",
		old: `if !pl.inverted {`,
		new: `if true {`,
	},
	{
		rule: "capacity_inversion", clause: "accused-not-yet", file: "capacity_inversion.go",
		off: "what its own instance declared too late did not accuse it",
		old: `if !pl.inverted {`,
		new: `if !pl.ContextTokens.Has || pl.ContextTokens.V <= pl.capacity() {`,
	},
	{
		rule: "capacity_inversion", clause: "late", file: "late.go",
		off: "a pool that opens too late accuses nobody",
		old: `	if pl := l.openPool(inst, f); pl != nil {
`,
		new: `	if pl := l.openPool(inst, f); pl != nil {
		l.capacityInversion(pl, inst, pl.ContextTokens)
		l.settle(f)
`,
	},
	{
		rule: "capacity_inversion", clause: "told", file: "transfers.go",
		off: "the end of a transfer makes two instances peers, too",
		old: `	t, f, h := c.tr, c.f, c.tr.into
	l.meet(c.inst, t.peerOf(c.inst))
`,
		new: `	t, f, h := c.tr, c.f, c.tr.into
`,
	},
	{
		rule: "layout_mismatch", clause: "restart", file: "requests.go",
		off: "an instance that came back is compared anew",
		old: `		delete(peer.layoutSeen, inst)
`,
		new: `		_ = peer
`,
	},
	{
		rule: "layout_mismatch", clause: "later-pool", file: "requests.go",
		off: "a pool that opens after the first transfer is compared as it opens",
		old: `		l.compare(inst, peer, pl)
`,
		new: `		_ = peer
`,
	},
	{
		rule: "layout_mismatch", clause: "both-have-pools", file: "layout_mismatch.go",
		off: "two instances meet once both have pools",
		old: `met || len(inst.byName) == 0 || len(peer.byName) == 0 {`,
		new: `met {`,
	},
	{
		rule: "layout_mismatch", clause: "draft", file: "layout_mismatch.go",
		off: "a pool whose namesake the peer has is no counterpart of another",
		old: `if pl == nil || pl.Role != role || peer.byName[pl.name] != nil {`,
		new: `if pl == nil || pl.Role != role {`,
	},
	{
		rule: "layout_mismatch", clause: "two-of-a-role", file: "layout_mismatch.go",
		off: "of two pools of one role neither is the counterpart",
		old: `		if one != nil {
			return nil
		}
`,
		new: ``,
	},
	{
		rule: "layout_mismatch", clause: "page-tokens", file: "layout_mismatch.go",
		off: "tokens of a page",
		old: `if a.PageTokens != b.PageTokens && a.saysTokens() && b.saysTokens() {`,
		new: `if false {`,
	},
	{
		rule: "layout_mismatch", clause: "tokens-unsaid", file: "layout_mismatch.go",
		off: "tokens of a page that one side does not say are not compared",
		old: `a.PageTokens != b.PageTokens && a.saysTokens() && b.saysTokens() {`,
		new: `a.PageTokens != b.PageTokens {`,
	},
	{
		rule: "layout_mismatch", clause: "bytes-tokens-unsaid", file: "layout_mismatch.go",
		off: "nor are the bytes of one token",
		old: `if pl.PageBytes == 0 || !pl.saysTokens() || `,
		new: `if pl.PageBytes == 0 || `,
	},
	{
		rule: "layout_mismatch", clause: "dtype", file: "layout_mismatch.go",
		off: "dtype",
		old: `x != "" && y != "" && x != y {`,
		new: `false {`,
	},
	{
		rule: "layout_mismatch", clause: "dtype-unsaid", file: "layout_mismatch.go",
		off: "a dtype that one side does not say is not compared",
		old: `x != "" && y != "" && x != y {`,
		new: `x != y {`,
	},
	{
		rule: "layout_mismatch", clause: "dtype-names", file: "layout_mismatch.go",
		off: "two names of one dtype are equal",
		old: `if same := dtypes[name]; same != "" {`,
		new: `if same := dtypes[name]; false {`,
	},
	{
		rule: "layout_mismatch", clause: "bytes", file: "layout_mismatch.go",
		off: "bytes of one token, layer and head",
		old: `if unequalUnits(a, b) {`,
		new: `if false {`,
	},
	{
		rule: "layout_mismatch", clause: "bytes-of-a-head", file: "layout_mismatch.go",
		off: "bytes are compared for one head and layer, not for a page",
		old: `return times(a.PageBytes, b).Cmp(times(b.PageBytes, a)) != 0`,
		new: `return a.PageBytes != b.PageBytes`,
	},
	{
		rule: "layout_mismatch", clause: "role", file: "layout_mismatch.go",
		off: "pools of different names are compared by role",
		old: `if pl.Role == "" || pl.inst.only(`,
		new: `if pl.Role != "" || pl.inst.only(`,
	},
	{
		rule: "vram_mismatch", clause: "pools", file: "vram_mismatch.go",
		off: "pools larger than what their processes hold",
		old: `if beyond := pools > held; beyond`,
		new: `if beyond := false; beyond`,
	},
	{
		rule: "vram_mismatch", clause: "equal-pools", file: "vram_mismatch.go",
		off: "of equal pools the first by name is named, in whatever order they opened",
		old: `cmp.Compare(largest.name, pl.name)`,
		new: `cmp.Compare(pl.name, largest.name)`,
	},
	{
		rule: "vram_mismatch", clause: "region", file: "vram_mismatch.go",
		off: "a registered region larger than what its processes hold",
		old: `if r.memory == lifecycle.VRAM && r.bytes > held {`,
		new: `if false {`,
	},
	{
		rule: "vram_mismatch", clause: "host", file: "vram_mismatch.go",
		off: "host memory is not held on the GPU",
		old: `if r.memory == lifecycle.VRAM && r.bytes > held {`,
		new: `if r.bytes > held {`,
	},
	{
		rule: "vram_mismatch", clause: "foreign", file: "vram_mismatch.go",
		off: "a foreign process on the engine's GPU",
		old: `	l.foreignProcess(c, node, key)
`,
		new: ``,
	},
	{
		rule: "vram_mismatch", clause: "other-gpu", file: "vram_mismatch.go",
		off: "a process on a GPU of no engine is not foreign",
		old: ` || !l.engineGPU(node, c.f.Node, key.gpu) {`,
		new: ` {`,
	},
	{
		rule: "vram_mismatch", clause: "half-sampled", file: "vram_mismatch.go",
		off: "it accuses only when every process was sampled",
		old: `if !found {
			return 0, false`,
		new: `if !found {
			continue`,
	},
	{
		rule: "vram_mismatch", clause: "old-sample", file: "vram_mismatch.go",
		off: "a sample older than the pool or the region says nothing of it",
		old: `s.tick > inst.vram.since`,
		new: `true`,
	},
	{
		rule: "vram_mismatch", clause: "outside", file: "vram_outside.go",
		off: "a region outside of what the driver gave",
		old: `if beyond := bytes > c.f.Bytes; beyond`,
		new: `if beyond := bytes > c.f.Bytes && false; beyond`,
	},
	{
		rule: "vram_mismatch", clause: "opened", file: "vram_outside.go",
		off: "memory that a process of no engine opened",
		old: `	case v.opened[pid]:`,
		new: `	case true:`,
	},
	{
		rule: "pool_imbalance", clause: "sum", file: "pool_imbalance.go",
		off: "the engine's counts do not add up to the pool",
		old: `sum != int64(len(pl.pages)) {`,
		new: `sum == -1 {`,
	},
	{
		rule: "pool_imbalance", clause: "pending", file: "pool_imbalance.go",
		off: "pages that wait for a drain are in the sum",
		old: `a.Held + a.PendingDrain + pl.nulls; sum`,
		new: `a.Held + pl.nulls; sum`,
	},
	{
		rule: "pool_imbalance", clause: "held", file: "pool_imbalance.go",
		off: "held is not the ledger's own count",
		old: `case !pl.imbalanceSaid && l.now-pl.imbalanced.V >= l.cfg.Grace.Nanoseconds():`,
		new: `case false:`,
	},
	{
		rule: "pool_imbalance", clause: "grace", file: "pool_imbalance.go",
		off: "the counts may differ for a grace time",
		old: `case !pl.imbalanceSaid && l.now-pl.imbalanced.V >= l.cfg.Grace.Nanoseconds():`,
		new: `default:`,
	},
	{
		rule: "pool_imbalance", clause: "agreed", file: "pool_imbalance.go",
		off: "the grace time begins anew once they agreed",
		old: `case differ == 0:
		pl.imbalanced, pl.imbalanceSaid = lifecycle.Opt[int64]{}, false`,
		new: `case differ == 0:`,
	},
	{
		rule: "stalled_reservation", clause: "progress", file: "stalled_reservation.go",
		off: "a request that moves does not stall",
		old: `	r.lastT = l.now
	l.unlist(r)`,
		new: `	if r.holding && r.owned > 0 {
		return
	}
	r.lastT = l.now
	l.unlist(r)`,
	},
	{
		rule: "stalled_reservation", clause: "released", file: "stalled_reservation.go",
		off: "pages that were given back do not stall",
		old: `p.owner == r.party && p.flags&ownerRef != 0 {`,
		new: `p.owner == r.party {`,
	},
	{
		rule: "pool_imbalance", clause: "releases-untold", file: "pool_imbalance.go",
		off: "what is held can be counted only where releases are promised",
		old: `|| !pl.promises(lifecycle.PagesReleased):`,
		new: `:`,
	},
	{
		rule: "pool_imbalance", clause: "holders-untold", file: "pool_imbalance.go",
		off: "and all that is held",
		old: `!pl.tellsHolders() || `,
		new: ``,
	},
	{
		rule: "stalled_reservation", clause: "releases-untold", file: "stalled_reservation.go",
		off: "one whose releases are not promised may have given its pages back",
		old: `pl != nil && pl.promises(lifecycle.PagesReleased)`,
		new: `pl != nil && (true || pl.promises(lifecycle.PagesReleased))`,
	},
	{
		rule: "blind", clause: "gap-told", file: "sight.go",
		off: "a gap or a loss that is told",
		old: `l.blind(c.inst, "the stream of "+f.Of.String(), what)`,
		new: ``,
	},
	{
		rule: "blind", clause: "gap-numbers", file: "sight.go",
		off: "a gap in the sequence numbers",
		old: `l.blind(inst, "the stream of "+f.Src.String(), what)`,
		new: ``,
	},
	{
		rule: "blind", clause: "coverage-ends", file: "sight.go",
		off: "coverage that ends while a handoff is open",
		old: `		if open {
			l.blind(`,
		new: `		if false {
			l.blind(`,
	},
	{
		rule: "blind", clause: "whole-node", file: "sight.go",
		off: "a loss of which no instance is known is about all of the node",
		old: `if inst.node == f.Node {
			l.loseFrom(`,
		new: `if false {
			l.loseFrom(`,
	},
}
