// Package sim is a small cluster in memory: from one seed it makes traffic
// that obeys DESIGN, with all its hard cases, and single faults put into it,
// and holds the judges (the ledger, the oracle) against what must come out.
//
// It may import engine/lifecycle and sidecar/finding; only the command
// test/sim/cmd/sim and the tests know a judge. It promises: the same seed,
// mix and fault give the same facts in the same order; valid traffic deserves
// no finding but those of a gap and of synthetic warm-ups; a fault breaks
// exactly one rule at one place and says which.
package sim
