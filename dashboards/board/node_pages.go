package board

var nodePages = []row{{"Pages", []panel{
	{
		shape: stack, title: "Pages by pool and state", unit: "suffix:pages", width: 8, height: 8,
		about: "The engines' own count, kv and aux pages. Cached is not leaked.",
		asks:  []ask{{expr: `sum by (pool, state) (kvwitness_pool_pages{` + ofNodeEngine + `})`, legend: "{{pool}} {{state}}"}},
	},
	{
		shape: table, title: "Pools", unit: "none", number: "pages", width: 8, height: 8,
		about: "Pages of each pool.",
		asks:  []ask{{expr: `sum by (engine, pool) (kvwitness_pool_size_pages{` + ofNodeEngine + `})`, legend: "{{engine}} {{pool}}"}},
	},
	{
		shape: graph, title: "Pool and context", unit: "suffix:tokens", width: 8, height: 8,
		about: "What the pool can hold, and the context as declared and as served. The pool must be the largest.",
		asks: []ask{
			{expr: `min by (engine) (kvwitness_pool_capacity_tokens{` + ofNodeEngine + `})`, legend: "{{engine}} pool"},
			{expr: `max by (engine, which) (kvwitness_context_tokens{` + ofNodeEngine + `})`, legend: "{{engine}} context, {{which}}"},
		},
	},
	{
		shape: graph, title: "Reserved, written, read", unit: "suffix:pages/s", width: 12, height: 8,
		about: "Reserved are the targets of transfers. Written is claimed by the engine or observed from outside; reads are always claimed.",
		asks: []ask{
			{expr: `sum(` + per("handoff_pages_reserved_total", ofNodeEngine) + `)`, legend: "reserved for handoffs"},
			{expr: `sum by (by) (` + per("pages_written_claimed_total", ofNodeEngine) + `)`, legend: "written (claimed) by {{by}}"},
			{expr: `sum(` + per("pages_written_observed_total", ofNode) + `)`, legend: "written (observed)"},
			{expr: `sum(` + per("pages_read_total", ofNodeEngine) + `)`, legend: "read"},
		},
	},
	{
		shape: graph, title: "Holders", unit: "suffix:pages/s", width: 12, height: 8,
		about: "Pages handed out and given back, by live requests and by the prefix cache; shared are references on cached pages.",
		asks: []ask{
			{expr: `sum by (holder) (` + per("pages_reserved_total", ofNodeEngine) + `)`, legend: "reserved, {{holder}}"},
			{expr: `sum by (holder) (` + per("pages_released_total", ofNodeEngine) + `)`, legend: "released, {{holder}}"},
			{expr: `sum(` + per("pages_cached_total", ofNodeEngine) + `)`, legend: "cached"},
			{expr: `sum(` + per("pages_shared_total", ofNodeEngine) + `)`, legend: "shared"},
		},
	},
	{
		shape: table, title: "Protections", unit: "none", width: 24, height: 8,
		about: "The state that each is in. Only ran counts as one.",
		asks:  []ask{{expr: `max by (engine, protection, state) (kvwitness_protection_state{` + ofNodeEngine + `}) == 1`, legend: "{{engine}} {{protection}} {{state}}"}},
	},
}}}
