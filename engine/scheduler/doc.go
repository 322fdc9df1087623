// Package scheduler decides what an engine does next: whom it admits, what each
// forward pass computes, which pages are named to a peer, what is sent, and when
// pages go back. It serves the three roles of an engine process: unified, prefill
// and decode.
//
// [Scheduler.Step] takes one event and returns the actions that follow from it.
// It is a pure state machine: no goroutine, no I/O, no clock and no randomness of
// its own, driven from one goroutine. The server, the model, the transfer and the
// publisher are built around it; the publisher listens through [Events], which is
// called in the order in which things happen.
//
// It imports engine/kvcache and the standard library.
//
// The queues of a request, by role:
//
//	unified   waiting → running
//	prefill   bootstrap → waiting → running (chunks, each sent as it is done) → inflight
//	decode    prealloc → transfer → digest → running; a retracted request re-enters by waiting
//
// What it promises, with all [Protections] on and no drill:
//
//  1. A request that must be rejected is rejected before it holds a page, a
//     metadata slot or a transfer, with the error that was the reason.
//  2. Every request that was submitted is answered once, whatever happens.
//  3. Pages that a launched step or an open transfer may touch are not handed out.
//  4. A handoff enters attention only when everything that was owed has arrived.
//  5. Nothing is sent for a request that has ended, and drained is said only when
//     nothing more can be sent.
//  6. Once idle, every page is free, cached, or waiting for a peer that is still up.
//  7. With page tags on, decode lets no token of an answer go, the one that prefill
//     chose included, before a pass of its own has read the pages that were handed
//     over and found their tags right.
//
// Reads and writes are dated by the step in which they were launched.
//
// A drill switches off exactly the protections that would stop it; [Drills] lists
// them, and says which part of an engine commits the fault. Here and in
// engine/kvcache: rejected-handoff, early-release, late-chunk, double-release,
// unwritten-cache, salt-drop, stale-pull, and the sender's half of lying-engine.
// In the transfer: layout-mismatch, whose process announces and uses a layout that
// differs from its peers'. In the publisher nothing is falsified: lying-engine is
// a sender that skips bytes and a receiver that believes what it is told.
package scheduler
