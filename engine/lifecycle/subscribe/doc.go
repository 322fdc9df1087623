// Package subscribe follows the lifecycle stream of one engine instance: a
// snapshot first, then what comes; what was missed is asked for again, and what
// cannot be had any more becomes a stream_gap.
//
// It imports engine/lifecycle with its package stream, and engine/zmtp. It takes
// what an engine says as hostile input, and promises:
//
//  1. Facts come in the order in which the engine said them, each once, with node
//     and inst set to those configured.
//  2. A fact is an engine's claim or it is dropped: another src, another instance,
//     or an event that only a witness can say (an observation, or a statement about
//     sight) is counted and never handed on.
//  3. Everything that was counted as missing is in Stats.Lost by stage and reason;
//     facts that came = handed on + lost + those that came twice.
//  4. Nothing is queued here: who is slow slows the engine's queue for this
//     subscriber, which then drops, and the loss shows as a gap.
//  5. Run returns when its context ends, and for nothing that the engine does.
//
// How a gap is told: the batch after a missing number makes the client ask for a
// replay from the missing number on. If that brings all, nothing was lost. Else it
// takes a snapshot, and hands on stream_gap (src sidecar, of engine) with the first
// and last seq of the facts that are missing, then the snapshot: what held then,
// so that what depends on the gap, and no more, is unwitnessed. The stream_gap
// stands after what began inside the gap (request_admitted, transfer_started
// without pages) and before the pools, so that a judge takes those for begun out of
// its sight. A snapshot's facts are of one time, the last before the stream goes
// on, and have no seq.
//
// Facts missing within a batch are the engine's own losses; their absence shows in
// seq, and the ledger finds it.
//
// A new epoch begins everything anew, without a gap: what the old process said last
// may be lost with it, and its requests have ended with it.
//
// A snapshot may come late, and what follows waits for it; facts carry the times at
// which things happened. Who judges should let no other source's time pass theirs
// before [State] is Live.
package subscribe
