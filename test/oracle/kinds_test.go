package oracle

import "testing"

// one is a trace, and the findings that it must give.
type one struct {
	name  string
	trace string
	want  []string
}

func is(findings ...string) []string { return findings }

func TestEachKindIsFoundWhereItsRuleIsBrokenAndNowhereElse(t *testing.T) {
	for _, kind := range [][]one{
		staleReads, foreignPages, tenantCrossings, wrongBlocks, shortHandoffs, writesAfterRelease, contentMismatches,
		rejectedHandoffs, earlyReleases, claimMismatches, capacityInversions, layoutMismatches, doubleHolds, doubleReleases,
		vramMismatches, poolImbalances, stalledReservations, blinds,
	} {
		for _, c := range kind {
			t.Run(c.name, func(t *testing.T) { expect(t, c.trace, c.want...) })
		}
	}
}

var staleReads = []one{
	{
		"stale_read: a page of an earlier tenant is read before it is written", engine + tenants + handed + `
		e {"ev":"pages_written","req":"b","pool":"kv","pages":[[0,1]],"by":"forward"}
		e {"ev":"pages_read","req":"b","pool":"kv","pages":[[0,2]]}`,
		is("stale_read engine b kv 1 of aA"),
	},
	{"stale_read: not once it was written", engine + tenants + handed + `
		e {"ev":"pages_written","req":"b","pool":"kv","pages":[[0,2]],"by":"forward"}
		e {"ev":"pages_read","req":"b","pool":"kv","pages":[[0,2]]}`, nil},
	{
		"stale_read: the source of a transfer", halves + reserve + `
		p {"ev":"request_admitted","req":"r","room":"1","prompt_tokens":128}
		p {"ev":"pages_reserved","req":"r","pool":"kv","pages":[[8,2]]}
		p {"ev":"transfer_started","xfer":"x","room":"1","side":"sender","pool":"kv","pages":[[8,2]],"peer":"decode"}`,
		is("stale_read prefill r kv 8-9"),
	},
	{"stale_read: not where writes are not promised", `
		e {"ev":"pool_opened","pool":"kv","pages":64,"page_tokens":64,"claims":["pages_reserved","pages_shared","pages_read"]}
		e {"ev":"pages_reserved","req":"a","pool":"kv","pages":[[0,2]]}
		e {"ev":"pages_read","req":"a","pool":"kv","pages":[[0,2]]}`, nil},
	{
		"stale_read: a copy of what is not written is not written", engine + tenants + handed + `
		e {"ev":"pages_reserved","req":"b","pool":"kv","pages":[[4,1]]}
		e {"ev":"pages_copied","pool":"kv","from":{"pages":[[0,1]]},"to":{"pages":[[4,1]]}}
		e {"ev":"pages_read","req":"b","pool":"kv","pages":[[4,1]]}`,
		is("stale_read engine b kv 4 of aA"),
	},
}

var foreignPages = []one{
	{
		"foreign_page: a reader without a reference", engine + tenants + filled + `
		e {"ev":"pages_read","req":"b","pool":"kv","pages":[[1,1]]}`,
		is("foreign_page engine b kv 1 of aA"),
	},
	{"foreign_page: not under a shared reference", engine + filled + `
		e {"ev":"pages_cached","req":"a","pool":"kv","pages":[[0,2]]}
		e {"ev":"pages_shared","req":"b","pool":"kv","pages":[[0,2]]}
		e {"ev":"pages_read","req":"b","pool":"kv","pages":[[1,1]]}`, nil},
	{
		"foreign_page: a writer that did not reserve", engine + tenants + filled + `
		e {"ev":"pages_written","req":"b","pool":"kv","pages":[[1,1]],"by":"forward"}`,
		is("foreign_page engine b kv 1 of aA"),
	},
	{"foreign_page: a write of nobody accuses nobody", engine + tenants + filled + `
		e {"ev":"pages_written","pool":"kv","pages":[[1,1]],"by":"forward"}`, nil},
	{
		"foreign_page: a transfer names a page that its request does not hold", halves + `
		d {"ev":"request_admitted","req":"r","room":"1"}
		d {"ev":"pages_reserved","req":"r","pool":"kv","pages":[[0,1]]}
		d {"ev":"transfer_started","xfer":"x","room":"1","side":"receiver","pool":"kv","pages":[[0,2]],"peer":"prefill"}`,
		is("foreign_page decode r kv 1"),
	},
	{
		"foreign_page: nothing to share", engine + `
		e {"ev":"pages_shared","req":"b","pool":"kv","pages":[[0,1]]}`,
		is("foreign_page engine b kv 0"),
	},
	{
		"foreign_page: a page that nobody holds goes into the cache", engine + `
		e {"ev":"pages_cached","req":"b","pool":"kv","pages":[[0,1]]}`,
		is("foreign_page engine b kv 0"),
	},
	{
		"foreign_page: bytes in a page that no transfer names", watched + reserve + `
		d {"ev":"pages_reserved","req":"s","pool":"kv","pages":[[3,1]]}
		d {"ev":"bytes_moved","src":"rdma","addr":77824,"bytes":4096,"from":"prefill"}`,
		is("foreign_page decode kv 3"),
	},
	{"foreign_page: bytes outside every region say nothing", watched + reserve + `
		d {"ev":"bytes_moved","src":"rdma","addr":4096,"bytes":4096,"from":"prefill"}`, nil},
}

var tenantCrossings = []one{
	{
		"tenant_crossing: at the share and at each read", engine + tenants + cached + `
		e {"ev":"pages_shared","req":"b","pool":"kv","pages":[[0,2]],"key":"k"}
		e {"ev":"pages_read","req":"b","pool":"kv","pages":[[0,1]]}`,
		is("tenant_crossing engine b kv 0-1 of aA", "tenant_crossing engine b kv 0 of aA"),
	},
	{"tenant_crossing: not within a domain", engine + cached + `
		e {"ev":"request_admitted","req":"a","domain":"A"}
		e {"ev":"request_admitted","req":"b","domain":"A"}
		e {"ev":"pages_shared","req":"b","pool":"kv","pages":[[0,2]],"key":"k"}`, nil},
	{"tenant_crossing: not of what all share", engine + cached + `
		e {"ev":"request_admitted","req":"a","domain":""}
		e {"ev":"request_admitted","req":"b","domain":"B"}
		e {"ev":"pages_shared","req":"b","pool":"kv","pages":[[0,2]],"key":"k"}`, nil},
	{"tenant_crossing: not into an unknown domain", engine + cached + `
		e {"ev":"request_admitted","req":"a","domain":"A"}
		e {"ev":"pages_shared","req":"b","pool":"kv","pages":[[0,2]],"key":"k"}`, nil},
	{
		"tenant_crossing: into the domain of all", engine + cached + `
		e {"ev":"request_admitted","req":"a","domain":"A"}
		e {"ev":"request_admitted","req":"b","domain":""}
		e {"ev":"pages_shared","req":"b","pool":"kv","pages":[[0,2]],"key":"k"}`,
		is("tenant_crossing engine b kv 0-1 of aA"),
	},
}

var wrongBlocks = []one{
	{
		"wrong_block: another prefix than the one asked for", engine + cached + `
		e {"ev":"pages_shared","req":"b","pool":"kv","pages":[[0,2]],"key":"other"}`,
		is("wrong_block engine b kv 0-1 of a?"),
	},
	{"wrong_block: not without a key", engine + cached + `
		e {"ev":"pages_shared","req":"b","pool":"kv","pages":[[0,2]]}`, nil},
}

var shortHandoffs = []one{
	{
		"short_handoff: completed with a page unwritten", halves + reserve + send + `
		d {"ev":"pages_written","req":"r","pool":"kv","pages":[[0,1]],"by":"transfer"}` + "\n" + complete,
		is("short_handoff decode r kv 1"),
	},
	{"short_handoff: not with all of them", halves + reserve + send + arrived + complete, nil},
	{
		"short_handoff: a claim is not enough where bytes are seen", watched + reserve + send + `
		d {"ev":"bytes_moved","src":"rdma","addr":65536,"bytes":4096,"from":"prefill","xfer":"x"}
		` + arrived + complete,
		is("short_handoff decode r kv 1", "claim_mismatch decode r kv 1"),
	},
	{
		"short_handoff: fewer tokens than owed", halves + reserve + send + arrived + `
		d {"ev":"transfer_completed","xfer":"x","room":"1","peer":"prefill","status":"ok","last":true,"tokens":127}`,
		is("short_handoff decode r"),
	},
	{
		"short_handoff: pages of the prompt that were never reserved", halves + `
		d {"ev":"request_admitted","req":"r","room":"1","prompt_tokens":200}
		d {"ev":"pages_reserved","req":"r","pool":"kv","pages":[[0,2]]}
		d {"ev":"transfer_started","xfer":"x","room":"1","side":"receiver","pool":"kv","pages":[[0,2]],"peer":"prefill"}
		` + arrived + complete,
		is("short_handoff decode r kv"),
	},
	{"short_handoff: not where it failed", halves + reserve + send + `
		d {"ev":"transfer_completed","xfer":"x","room":"1","peer":"prefill","status":"failed"}
		d {"ev":"watermark","src":"sidecar","of":"engine","t":900000000}`, nil},
	{"short_handoff: what was computed locally is not owed", halves + reserve + send + `
		d {"ev":"pages_written","req":"r","pool":"kv","pages":[[0,2]],"by":"forward"}` + "\n" + complete, nil},
}

var writesAfterRelease = []one{
	{
		"write_after_release: bytes land in the next request's page", watched + reserve + send + `
		d {"ev":"transfer_drained","xfer":"x","room":"1","peer":"prefill"}
		d {"ev":"pages_released","req":"r","pool":"kv","pages":[[0,2]]}
		d {"ev":"pages_reserved","req":"s","pool":"kv","pages":[[0,1]]}
		` + bytes,
		is("write_after_release decode r kv 0-1"),
	},
	{"write_after_release: not before the release", watched + reserve + send + bytes + `
		d {"ev":"transfer_drained","xfer":"x","room":"1","peer":"prefill"}
		d {"ev":"pages_released","req":"r","pool":"kv","pages":[[0,2]]}`, nil},
	{
		"write_after_release: a claimed write of an earlier holder", engine + tenants + handed + `
		e {"ev":"pages_written","req":"b","pool":"kv","pages":[[0,2]],"by":"forward"}
		e {"ev":"pages_written","req":"a","pool":"kv","pages":[[0,1]],"by":"forward"}`,
		is("write_after_release engine a kv 0 of bB"),
	},
}

var contentMismatches = []one{
	{
		"content_mismatch: the digests of the two sides differ", halves + reserve + send + arrived + `
		p {"ev":"content_digest","room":"1","pool":"kv","side":"sender","digest":"s","prompt_page":1}
		d {"ev":"content_digest","room":"1","pool":"kv","side":"receiver","digest":"t","prompt_page":1}`,
		is("content_mismatch decode r kv 1"),
	},
	{"content_mismatch: not of different pages", halves + reserve + send + arrived + `
		p {"ev":"content_digest","room":"1","pool":"kv","side":"sender","digest":"s","prompt_page":0}
		d {"ev":"content_digest","room":"1","pool":"kv","side":"receiver","digest":"t","prompt_page":1}`, nil},
}

const refused = `p {"ev":"request_admitted","req":"r","room":"1","prompt_tokens":128}
	p {"ev":"request_rejected","req":"r","room":"1","status":400}
	`

var rejectedHandoffs = []one{
	{
		"rejected_handoff: a transfer, its completion and a success", halves + reserve + refused + push + arrived + complete + read + success,
		is("rejected_handoff prefill r kv 8-9", "rejected_handoff decode r", "rejected_handoff decode r"),
	},
	{"rejected_handoff: not once it is admitted again", halves + reserve + refused + send + arrived + complete + read + success, nil},
	{"rejected_handoff: a recompute is none", halves + reserve + refused + `
		d {"ev":"pages_written","req":"r","pool":"kv","pages":[[0,2]],"by":"forward"}
		` + read + success, nil},
	{
		"rejected_handoff: an aborted request reserves", engine + `
		e {"ev":"request_admitted","req":"a"}
		e {"ev":"request_aborted","req":"a"}
		e {"ev":"pages_reserved","req":"a","pool":"kv","pages":[[0,2]]}`,
		is("rejected_handoff engine a kv 0-1"),
	},
}

var earlyReleases = []one{
	{
		"early_release: given up while it is written", halves + reserve + send + `
		d {"ev":"pages_released","req":"r","pool":"kv","pages":[[0,2]]}`,
		is("early_release decode r kv 0-1"),
	},
	{"early_release: not once it is drained", halves + reserve + send + `
		d {"ev":"transfer_drained","xfer":"x","room":"1","peer":"prefill"}
		d {"ev":"pages_released","req":"r","pool":"kv","pages":[[0,2]]}`, nil},
	{
		"early_release: the source too", halves + reserve + send + `
		p {"ev":"pages_released","req":"r","pool":"kv","pages":[[8,2]]}`,
		is("early_release prefill r kv 8-9"),
	},
}

var claimMismatches = []one{
	{
		"claim_mismatch: the halves of a room differ in the prompt", halves + `
		d {"ev":"request_admitted","req":"r","room":"1","prompt_tokens":128}
		p {"ev":"request_admitted","req":"r","room":"1","prompt_tokens":1}`,
		is("claim_mismatch prefill r"),
	},
	{"claim_mismatch: not where one says nothing", halves + `
		d {"ev":"request_admitted","req":"r","room":"1","prompt_tokens":128}
		p {"ev":"request_admitted","req":"r","room":"1"}`, nil},
	{
		"claim_mismatch: the sides name another number of pages", halves + reserve + `
		p {"ev":"pages_reserved","req":"r","room":"1","pool":"kv","pages":[[8,3]]}
		p {"ev":"pages_written","req":"r","pool":"kv","pages":[[8,3]],"by":"forward"}
		p {"ev":"transfer_started","xfer":"x","room":"1","side":"sender","pool":"kv","pages":[[8,3]],"peer":"decode"}
		` + arrived + complete,
		is("claim_mismatch decode r kv"),
	},
}

var capacityInversions = []one{
	{
		"capacity_inversion: the pool cannot hold the context", `
		e {"ev":"pool_opened","pool":"kv","pages":64,"page_tokens":64,"context_tokens":4097}`,
		is("capacity_inversion engine kv"),
	},
	{"capacity_inversion: not to the token", `
		e {"ev":"pool_opened","pool":"kv","pages":64,"page_tokens":64,"context_tokens":4096}`, nil},
	{
		"capacity_inversion: null pages hold nothing", `
		e {"ev":"pool_opened","pool":"kv","pages":64,"page_tokens":64,"context_tokens":4096,"null_ids":[[0,1]]}`,
		is("capacity_inversion engine kv"),
	},
	{
		"capacity_inversion: at the first transfer, the peer's", `
		d {"ev":"pool_opened","pool":"kv","pages":64,"page_tokens":64,"context_tokens":4096}
		p {"ev":"pool_opened","pool":"kv","pages":32,"page_tokens":64}
		` + reserve,
		is("capacity_inversion prefill kv"),
	},
}

var layoutMismatches = []one{
	{
		"layout_mismatch: dtypes differ", `
		d {"ev":"pool_opened","pool":"kv","pages":64,"page_tokens":64,"dtype":"bf16"}
		p {"ev":"pool_opened","pool":"kv","pages":64,"page_tokens":64,"dtype":"fp8"}
		` + reserve,
		is("layout_mismatch decode kv"),
	},
	{"layout_mismatch: not by another name", `
		d {"ev":"pool_opened","pool":"kv","pages":64,"page_tokens":64,"dtype":"BF16"}
		p {"ev":"pool_opened","pool":"kv","pages":64,"page_tokens":64,"dtype":"bfloat16"}
		` + reserve, nil},
	{
		"layout_mismatch: bytes of a token, layer and head", `
		d {"ev":"pool_opened","pool":"kv","pages":64,"page_tokens":64,"page_bytes":65536,"layers":[0,4],"kv_heads":4}
		p {"ev":"pool_opened","pool":"kv","pages":64,"page_tokens":64,"page_bytes":65536,"layers":[0,4],"kv_heads":8}
		` + reserve,
		is("layout_mismatch decode kv"),
	},
}

var doubleHolds = []one{
	{
		"double_hold: handed out while held", engine + tenants + filled + `
		e {"ev":"pages_reserved","req":"b","pool":"kv","pages":[[1,2]]}`,
		is("double_hold engine b kv 1 of aA"),
	},
	{
		"double_hold: named twice in one fact", engine + `
		e {"ev":"pages_reserved","req":"b","pool":"kv","pages":[[1,2],[2,1]]}`,
		is("double_hold engine b kv 2"),
	},
	{"double_hold: not after the release", engine + tenants + handed, nil},
}

var doubleReleases = []one{
	{
		"double_release: given up twice", engine + tenants + filled + `
		e {"ev":"pages_released","req":"a","pool":"kv","pages":[[0,2]]}
		e {"ev":"pages_released","req":"a","pool":"kv","pages":[[1,1]]}`,
		is("double_release engine a kv 1"),
	},
	{
		"double_release: not by whom a double hold robbed", engine + tenants + filled + `
		e {"ev":"pages_reserved","req":"b","pool":"kv","pages":[[1,1]]}
		e {"ev":"pages_released","req":"a","pool":"kv","pages":[[0,2]]}`,
		is("double_hold engine b kv 1 of aA"),
	},
	{
		"double_release: not by the cache that a double hold robbed, but once", engine + tenants + filled + `
		e {"ev":"pages_cached","req":"a","pool":"kv","pages":[[0,1]]}
		e {"ev":"pages_released","req":"a","pool":"kv","pages":[[0,1]]}
		e {"ev":"pages_reserved","req":"b","pool":"kv","pages":[[0,1]]}
		e {"ev":"pages_evicted","pool":"kv","pages":[[0,1]]}
		e {"ev":"pages_evicted","pool":"kv","pages":[[0,1]]}`,
		is("double_hold engine b kv 0 of aA", "double_release engine kv 0 of aA"),
	},
	{
		"double_release: the cache gives up what it does not hold", engine + filled + `
		e {"ev":"pages_evicted","pool":"kv","pages":[[0,1]]}`,
		is("double_release engine kv 0 of a?"),
	},
}

const vram = `e {"ev":"pool_opened","pool":"kv","pages":64,"page_tokens":64,"page_bytes":1024,"pids":[7]}
	`

var vramMismatches = []one{
	{
		"vram_mismatch: the pool is larger than its processes", vram + `
		e {"ev":"vram_usage","src":"nvml","gpu":"0","pid":7,"bytes":65535}`,
		is("vram_mismatch engine kv"),
	},
	{"vram_mismatch: not as large", vram + `
		e {"ev":"vram_usage","src":"nvml","gpu":"0","pid":7,"bytes":65536}`, nil},
	{
		"vram_mismatch: a foreign process", vram + `
		e {"ev":"vram_usage","src":"nvml","gpu":"0","pid":7,"bytes":65536}
		e {"ev":"vram_usage","src":"nvml","gpu":"0","pid":8,"bytes":1}
		e {"ev":"vram_usage","src":"nvml","gpu":"1","pid":9,"bytes":1}`,
		is("vram_mismatch engine"),
	},
	{
		"vram_mismatch: a region is larger", vram + `
		e {"ev":"vram_usage","src":"nvml","gpu":"0","pid":7,"bytes":65536}
		e {"ev":"region_registered","src":"rdma","base":4096,"bytes":65537,"memory":"vram"}
		e {"ev":"region_registered","src":"rdma","base":4096,"bytes":99999,"memory":"host"}
		e {"ev":"vram_usage","src":"nvml","gpu":"0","pid":7,"bytes":65536}`,
		is("vram_mismatch engine"),
	},
}

var poolImbalances = []one{
	{
		"pool_imbalance: the engine's own count does not add up", engine + `
		e {"ev":"pool_audit","pool":"kv","free":63,"cached":0,"held":0}`,
		is("pool_imbalance engine kv"),
	},
	{"pool_imbalance: not with what is pending", engine + `
		e {"ev":"pool_audit","pool":"kv","free":63,"cached":0,"held":0,"pending_drain":1}`, nil},
	{
		"pool_imbalance: the ledger counts another number beyond the grace time", engine + filled + `
		e {"ev":"pool_audit","pool":"kv","free":63,"cached":0,"held":1,"t":1000000000}
		e {"ev":"pool_audit","pool":"kv","free":63,"cached":0,"held":1,"t":2000000000}`,
		is("pool_imbalance engine kv"),
	},
	{"pool_imbalance: not within it", engine + filled + `
		e {"ev":"pool_audit","pool":"kv","free":63,"cached":0,"held":1,"t":1000000000}
		e {"ev":"pool_audit","pool":"kv","free":63,"cached":0,"held":1,"t":1999999999}`, nil},
}

var stalledReservations = []one{
	{
		"stalled_reservation: nothing was said for the limit", engine + filled + `
		e {"ev":"watermark","src":"sidecar","of":"engine","t":40000000000}`,
		is("stalled_reservation engine a kv 0-1"),
	},
	{"stalled_reservation: not where something was", engine + filled + `
		e {"ev":"pages_read","req":"a","pool":"kv","pages":[[0,1]],"t":20000000000}
		e {"ev":"watermark","src":"sidecar","of":"engine","t":40000000000}`, nil},
	{"stalled_reservation: not of what only the cache holds", engine + cached + `
		e {"ev":"watermark","src":"sidecar","of":"engine","t":40000000000}`, nil},
}

var blinds = []one{
	{
		"blind: a gap that was told", engine + `
		e {"ev":"stream_gap","src":"sidecar","of":"engine","from":3,"to":4}`,
		is("blind engine"),
	},
	{
		"blind: a gap in the numbers, said once", `
		e {"ev":"pool_opened","pool":"kv","pages":64,"page_tokens":64,"seq":0}
		e {"ev":"stream_gap","src":"sidecar","of":"engine","from":1,"to":1}
		e {"ev":"request_admitted","req":"a","seq":2}`,
		is("blind engine"),
	},
	{
		"blind: coverage ends while a handoff is open", watched + reserve + `
		d {"ev":"source_coverage","src":"sidecar","of":"rdma","complete":false}`,
		is("blind decode"),
	},
	{"blind: not while none is", watched + reserve + send + bytes + arrived + complete + `
		d {"ev":"source_coverage","src":"sidecar","of":"rdma","complete":false}`, nil},
}
