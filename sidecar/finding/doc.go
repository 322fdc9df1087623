// Package finding holds what kvwitness says: the kinds of broken rules, a
// finding with its claim and its observation, and the verdict on a request.
//
// Rules live in sidecar/ledger; whatever shows, stores or sends findings
// imports this package alone. It imports only engine/lifecycle.
package finding
