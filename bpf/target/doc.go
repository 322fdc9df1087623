// Package target reads what the probes need to know of a process before they
// attach to it: what it has mapped, where the functions of a mapped file begin,
// and at which of its versioned symbols a function stands.
//
// It imports nothing of the project. All that it reads may be hostile (the
// process chose it): files are bounded, tables are checked, and an address that
// comes out of a process's memory is only ever compared with what its file says
// (DESIGN section 7: attach only where a function starts).
package target
