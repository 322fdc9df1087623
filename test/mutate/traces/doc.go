// Package traces holds traces that were missing: each shows a clause of a hard
// case, or of a rule, that could be switched off in the ledger before without
// any test noticing. README.md says which, and what happens in each.
//
// Format and expectations are those of test/traces, which the package imports
// to read and compare them. It has no code of its own but its test, and
// promises that the ledger and the oracle give what each trace expects, and
// nothing else.
package traces
