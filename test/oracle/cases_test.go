package oracle

import (
	"testing"

	"github.com/kvwitness/kvwitness/sidecar/finding"
)

// The fourteen hard cases of DESIGN section 6, one test each.

func TestCase01RetriesCountOnceAndPostedWritesOnlyWhenTheyLand(t *testing.T) {
	half := `d {"ev":"bytes_moved","src":"rdma","addr":65536,"bytes":4096,"from":"prefill","xfer":"x"}
	`
	expect(t, watched+reserve+send+half+half+complete, "short_handoff decode r kv 1")
	posted := `d {"ev":"bytes_moved","src":"rdma","addr":65536,"bytes":8192,"from":"prefill","xfer":"x","status":"posted"}
	`
	expect(t, watched+reserve+send+posted+complete)
	failed := `d {"ev":"bytes_moved","src":"rdma","addr":69632,"bytes":4096,"from":"prefill","xfer":"x","status":"error"}
	`
	expect(t, watched+reserve+send+posted+failed+complete, "short_handoff decode r kv 1")
}

func TestCase02AMissingWriteSaysNothingOnAPathThatNobodySees(t *testing.T) {
	quiet := `d {"ev":"pool_opened","pool":"kv","pages":64,"page_tokens":64,"claims":["pages_reserved","request_admitted"]}
	p {"ev":"pool_opened","pool":"kv","pages":64,"page_tokens":64}
	`
	v := expect(t, quiet+reserve+send+complete+read+success)
	if got := outcome(t, v, "1", "decode", ""); got != "unwitnessed" {
		t.Errorf("the request is %s", got)
	}
	late := `d {"ev":"pool_opened","pool":"kv","pages":64,"page_tokens":64,"claims":["pages_reserved"],"regions":[{"base":65536,"stride":4096,"bytes":4096}]}
	p {"ev":"pool_opened","pool":"kv","pages":64,"page_tokens":64}
	` + reserve + `d {"ev":"source_coverage","src":"sidecar","of":"rdma","complete":true}
	`
	expect(t, late+send+complete)
}

func TestCase03TheReceiverIsWhoSaidSoElseWhomTheSenderNamed(t *testing.T) {
	d := `d {"ev":"request_admitted","req":"r","room":"1","prompt_tokens":128}
	d {"ev":"pages_reserved","req":"r","pool":"kv","pages":[[0,2]]}
	`
	expect(t, halves+d+send+complete, "short_handoff decode r kv 0-1")
	wire := `d {"ev":"pool_opened","src":"wire","pool":"kv","pages":64,"page_tokens":64,"regions":[{"base":65536,"stride":4096,"bytes":4096}]}
	d {"ev":"source_coverage","src":"sidecar","of":"rdma","complete":true}
	d {"ev":"transfer_started","src":"wire","xfer":"x","room":"1","side":"receiver","pool":"kv","pages":[[0,2]],"peer":"prefill"}
	d {"ev":"transfer_completed","src":"wire","xfer":"x","room":"1","peer":"prefill","status":"ok","last":true}`
	expect(t, wire, "short_handoff decode kv 0-1")
}

func TestCase04APrefixIsNotOwedAndAPageBeyondThePromptNeither(t *testing.T) {
	d := `d {"ev":"request_admitted","req":"r","room":"1","prompt_tokens":192,"prefix_tokens":64}
	d {"ev":"pages_reserved","req":"r","pool":"kv","pages":[[0,3]]}
	d {"ev":"transfer_started","xfer":"x","room":"1","side":"receiver","pool":"kv","pages":[[0,2]],"peer":"prefill"}
	`
	tokens := `d {"ev":"transfer_completed","xfer":"x","room":"1","peer":"prefill","status":"ok","last":true,"tokens":128}
	`
	expect(t, halves+d+arrived+tokens)
	window := `d {"ev":"pool_opened","pool":"swa","pages":64,"page_tokens":64,"owes":"window","window":64}
	p {"ev":"pool_opened","pool":"swa","pages":64,"page_tokens":64}
	d {"ev":"request_admitted","req":"r","room":"1","prompt_tokens":640}
	d {"ev":"pages_reserved","req":"r","pool":"swa","pages":[[4,1]]}
	d {"ev":"transfer_started","xfer":"x","room":"1","side":"receiver","pool":"swa","pages":[[4,1]],"peer":"prefill"}
	`
	expect(t, window+complete, "short_handoff decode r swa 4")
	expect(t, window+`d {"ev":"pages_written","req":"r","pool":"swa","pages":[[4,1]],"by":"transfer"}
	`+complete)
}

func TestCase05ChunksAreOneHandoffJudgedOnce(t *testing.T) {
	chunks := halves + `d {"ev":"request_admitted","req":"r","room":"1","prompt_tokens":128}
	d {"ev":"pages_reserved","req":"r","pool":"kv","pages":[[0,2]]}
	d {"ev":"transfer_started","xfer":"x","room":"1","side":"receiver","pool":"kv","pages":[[0,1]],"peer":"prefill"}
	d {"ev":"pages_written","req":"r","pool":"kv","pages":[[0,1]],"by":"transfer"}
	d {"ev":"transfer_completed","xfer":"x","room":"1","peer":"prefill","status":"ok"}
	d {"ev":"transfer_started","xfer":"y","room":"1","side":"receiver","pool":"kv","pages":[[1,1]],"peer":"prefill"}
	`
	done := `d {"ev":"transfer_completed","xfer":"y","room":"1","peer":"prefill","status":"ok"}
	`
	expect(t, chunks+`d {"ev":"pages_written","req":"r","pool":"kv","pages":[[1,1]],"by":"transfer"}
	`+done+read+success)
	expect(t, chunks+done, "short_handoff decode r kv 1")
	expect(t, chunks+done+`d {"ev":"watermark","src":"sidecar","of":"engine","t":900000000}
	d {"ev":"pages_written","req":"r","pool":"kv","pages":[[1,1]],"by":"transfer","t":900000001}`,
		"short_handoff decode r kv 1")
	expect(t, chunks) // it is still open at the end
}

func TestCase06AnAbortBindsOnlyWhoSaidItAndARunningTransferMayEnd(t *testing.T) {
	expect(t, halves+reserve+send+`p {"ev":"request_aborted","req":"r","room":"1"}
	`+arrived+complete+read+success)
	expect(t, halves+reserve+send+arrived+`d {"ev":"request_aborted","req":"r","room":"1"}
	`+complete+success, "rejected_handoff decode r")
}

func TestCase07EveryWriterOfARoomMustBeDrained(t *testing.T) {
	two := halves + `q {"ev":"pool_opened","pool":"kv","pages":64,"page_tokens":64}
	` + reserve + send + `d {"ev":"transfer_started","xfer":"z","room":"1","side":"receiver","pool":"kv","pages":[[0,2]],"peer":"prefill2"}
	d {"ev":"transfer_drained","xfer":"x","room":"1","peer":"prefill"}
	`
	gone := `d {"ev":"peer_gone","peer":"prefill2"}
	`
	release := `d {"ev":"pages_released","req":"r","pool":"kv","pages":[[0,2]]}
	`
	expect(t, two+release, "early_release decode r kv 0-1")
	expect(t, two+gone+release)
}

func TestCase08AWriteThatTwoCouldOwnIsNeithers(t *testing.T) {
	both := watched + reserve + send + `d {"ev":"request_admitted","req":"s","room":"2","prompt_tokens":128}
	d {"ev":"pages_shared","req":"s","pool":"kv","pages":[[0,2]]}
	d {"ev":"transfer_started","xfer":"y","room":"2","side":"receiver","pool":"kv","pages":[[0,2]],"peer":"prefill"}
	d {"ev":"bytes_moved","src":"rdma","addr":65536,"bytes":8192,"from":"prefill"}
	` + arrived + complete
	v := expect(t, both)
	for _, room := range []string{"1", "2"} {
		if got := outcome(t, v, room, "decode", ""); got != "unwitnessed" {
			t.Errorf("room %s is %s", room, got)
		}
	}
	v = expect(t, watched+reserve+send+`d {"ev":"transfer_drained","xfer":"x","room":"1","peer":"prefill"}
	d {"ev":"pages_released","req":"r","pool":"kv","pages":[[0,2]]}
	d {"ev":"pages_reserved","req":"s","pool":"kv","pages":[[0,1]]}
	`+bytes, "write_after_release decode r kv 0-1")
	if got := outcome(t, v, "", "decode", "s"); got != "violated" {
		t.Errorf("the victim is %s", got)
	}
}

func TestCase09WithinAStepWritesComeBeforeReads(t *testing.T) {
	r := engine + tenants + `e {"ev":"pages_reserved","req":"a","pool":"kv","pages":[[0,1]],"step":1}
	e {"ev":"pages_read","req":"a","pool":"kv","pages":[[0,1]],"step":1}
	`
	expect(t, r+`e {"ev":"pages_written","req":"a","pool":"kv","pages":[[0,1]],"by":"forward","step":1}
	e {"ev":"pages_read","req":"a","pool":"kv","pages":[[0,1]],"step":2}`)
	expect(t, r+`e {"ev":"pages_written","req":"a","pool":"kv","pages":[[0,1]],"by":"forward","step":2}`,
		"stale_read engine a kv 0")
	released := engine + tenants + filled + `e {"ev":"pages_released","req":"a","pool":"kv","pages":[[0,2]],"step":5}
	e {"ev":"pages_read","req":"a","pool":"kv","pages":[[0,1]],"step":5}
	e {"ev":"pages_reserved","req":"b","pool":"kv","pages":[[0,1]],"step":6}
	e {"ev":"pages_read","req":"a","pool":"kv","pages":[[0,1]],"step":5}
	`
	expect(t, released)
	expect(t, released+`e {"ev":"pages_written","req":"b","pool":"kv","pages":[[0,1]],"by":"forward","step":6}
	e {"ev":"pages_read","req":"a","pool":"kv","pages":[[0,1]],"step":5}`,
		"foreign_page engine a kv 0 of bB")
}

func TestCase10AnUnknownPageAccusesOfNothingUntilItIsHandedOutAgain(t *testing.T) {
	attached := `e {"ev":"pool_opened","pool":"kv","pages":64,"page_tokens":64,"since":"attach"}
	e {"ev":"pages_read","req":"a","pool":"kv","pages":[[0,2]]}
	e {"ev":"pages_released","req":"a","pool":"kv","pages":[[0,2]]}
	`
	v := expect(t, attached)
	if got := outcome(t, v, "", "engine", "a"); got != "unwitnessed" {
		t.Errorf("the request is %s", got)
	}
	expect(t, attached+`e {"ev":"pages_reserved","req":"a","pool":"kv","pages":[[0,2]]}
	e {"ev":"pages_read","req":"a","pool":"kv","pages":[[0,2]]}`, "stale_read engine a kv 0-1")
	expect(t, engine+filled+`e {"ev":"stream_gap","src":"sidecar","of":"engine","from":7,"to":7}
	e {"ev":"pages_read","req":"b","pool":"kv","pages":[[0,2]]}`, "blind engine")
}

func TestCase11FactsOfOneTimeAccuseOnlyIfTheyAccuseInEveryOrder(t *testing.T) {
	expect(t, engine+tenants+filled+`e {"t":9000000,"ev":"pages_reserved","req":"b","pool":"kv","pages":[[0,2]]}
	e {"t":9000000,"ev":"pages_read","req":"b","pool":"kv","pages":[[0,2]]}
	e {"t":9000000,"ev":"pages_written","req":"b","pool":"kv","pages":[[0,2]],"by":"forward"}
	e {"t":9000000,"ev":"pages_read","req":"a","pool":"kv","pages":[[0,2]]}
	e {"t":9000000,"ev":"pages_released","req":"a","pool":"kv","pages":[[0,2]]}`)
	expect(t, engine+tenants+filled+`e {"t":9000000,"ev":"pages_released","req":"a","pool":"kv","pages":[[0,2]]}
	e {"t":9000000,"ev":"pages_cached","req":"a","pool":"kv","pages":[[0,2]]}`)
	swapped := `e {"t":1000000,"ev":"pool_opened","pool":"kv","pages":64,"page_tokens":64,"seq":0}
	e {"t":5000000,"ev":"pages_read","req":"a","pool":"kv","pages":[[0,1]],"seq":3}
	e {"t":4000000,"ev":"pages_written","req":"a","pool":"kv","pages":[[0,1]],"by":"forward","seq":2}
	e {"t":6000000,"ev":"pages_reserved","req":"a","pool":"kv","pages":[[0,1]],"seq":1}`
	expect(t, swapped)
	late := engine + `e {"t":900000000,"ev":"watermark","src":"sidecar","of":"engine"}
	e {"t":100000000,"ev":"pages_read","req":"a","pool":"kv","pages":[[0,1]]}`
	expect(t, late)
}

func TestCase12TheSameAddressOfTwoInstancesIsTwoPages(t *testing.T) {
	region := `"regions":[{"base":65536,"stride":4096,"bytes":4096}]}
	`
	expect(t, `d {"ev":"pool_opened","pool":"kv","pages":64,"page_tokens":64,`+region+
		`q {"ev":"pool_opened","pool":"kv","pages":64,"page_tokens":64,`+region+
		`p {"ev":"pool_opened","pool":"kv","pages":64,"page_tokens":64}
	d {"ev":"source_coverage","src":"sidecar","of":"rdma","complete":true}
	`+reserve+send+`q {"ev":"pages_reserved","req":"s","pool":"kv","pages":[[0,2]]}
	`+bytes+complete+read)
}

func TestCase13CachedIsNotLeakedAndAWarmUpIsMarked(t *testing.T) {
	expect(t, engine+cached+`e {"ev":"pool_audit","pool":"kv","free":62,"cached":2,"held":0}
	e {"ev":"pool_audit","pool":"kv","free":62,"cached":2,"held":0,"t":5000000000}`)
	findings, _ := Judge(facts(t, engine+`e {"ev":"request_admitted","req":"a","synthetic":true}
	e {"ev":"pages_reserved","req":"a","pool":"kv","pages":[[0,1]]}
	e {"ev":"pages_read","req":"a","pool":"kv","pages":[[0,1]]}`), Config{})
	if len(findings) != 1 || !findings[0].Synthetic {
		t.Errorf("want one finding, marked synthetic: %+v", findings)
	}
	expect(t, `e {"ev":"pool_opened","pool":"kv","pages":64,"page_tokens":64,"null_ids":[[0,1]]}
	e {"ev":"pages_read","req":"a","pool":"kv","pages":[[0,1]]}`)
}

func TestCase14OneFindingAFactKindAndRequest(t *testing.T) {
	trace := engine + tenants + filled + `e {"ev":"pages_reserved","req":"b","pool":"kv","pages":[[4,2]]}
	e {"ev":"pages_read","req":"b","pool":"kv","pages":[[5,1],[0,2],[4,1]]}`
	findings, _ := Judge(facts(t, trace), Config{})
	want := map[finding.Kind]int{finding.StaleRead: 1, finding.ForeignPage: 1}
	got := map[finding.Kind]int{}
	for _, f := range findings {
		got[f.Kind]++
	}
	if got[finding.StaleRead] != want[finding.StaleRead] || got[finding.ForeignPage] != want[finding.ForeignPage] || len(findings) != 2 {
		t.Errorf("got %v", findings)
	}
	expect(t, trace, "foreign_page engine b kv 0-1 of aA", "stale_read engine b kv 4-5")
	again := `e {"ev":"pages_read","req":"b","pool":"kv","pages":[[0,1]],"seq":9}
	`
	expect(t, engine+tenants+filled+again+again, "foreign_page engine b kv 0 of aA")
}
