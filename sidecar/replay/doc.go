// Package replay judges recorded traces: it opens them (plain, gzip, standard
// input), merges several by time, hands each fact to a ledger and writes what
// the ledger says, for people or as JSON Lines.
//
// It imports engine/lifecycle, sidecar/finding and sidecar/ledger; it holds no
// rule. It promises: memory does not grow with the trace; what came before
// damage is judged and said before the damage is; nothing that a trace names
// reaches a terminal as a control character; no fact is passed over without
// being counted.
package replay
