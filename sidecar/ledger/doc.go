// Package ledger is the judge: given facts about page ownership it says which
// rule was broken, by whom, whose data was exposed, and what was not seen.
//
// The rules are DESIGN section 6; READINGS.md says how they are read where the
// text leaves room. Each kind of finding has the file of its name (stale_read.go,
// short_handoff.go, …), and nothing else decides it. What the rules look at is
// kept by page.go, request.go, transfer.go, handoff.go and coverage.go; what
// may be believed by sight.go; in which order facts count by window.go.
//
// A Ledger is a pure state machine: no goroutine, no I/O, no clock but the
// times of the facts. It imports engine/lifecycle and sidecar/finding, and no
// source of facts. It promises:
//
//  1. It never panics and never grows past its [Limits], whatever the facts.
//  2. What is beyond a limit is forgotten and makes requests unwitnessed; it
//     never makes a finding and never hides behind "clean".
//  3. Every fact is counted once, as applied, duplicate, late, outdated or
//     unknown: see [Stats].
package ledger
