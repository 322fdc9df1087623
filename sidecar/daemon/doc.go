// Package daemon is a running sidecar: it follows the engines of its
// configuration, judges what they say, and hands on what the judge says.
//
// It imports the sidecar's other packages and joins them. It promises:
//
//  1. One goroutine owns the judge; nothing that it calls waits for a disk, a
//     reader or an engine.
//  2. Time passes for the judge only as far as all engines have come (see intake).
//  3. A configuration that cannot be read, or changes what only a restart can,
//     changes nothing, and is reported.
//  4. It ends within [EndTimeout] of being asked to. Requests that are under way
//     then get no verdict of it: they are neither clean nor violated for being cut
//     off, and who comes next begins with a snapshot and calls them unwitnessed.
//
// Its settle time is shorter than a replay's: the intake has put the facts of one
// node in order before the judge sees them, and what is left to wait for is that
// the facts of one step, which an engine tells in turns of a millisecond, are
// there together.
package daemon
