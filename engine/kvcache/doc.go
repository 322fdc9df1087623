// Package kvcache keeps the books of an engine's KV memory: which physical page
// belongs to whom, in which generation, how much of it is written, and when it
// may be handed out again.
//
// It holds no KV bytes and starts nothing: a [Pool] is a pure state machine that
// is driven from one goroutine, told the time and the step by [Pool.Advance], and
// it reports every transition to an [Events] that the caller supplies. Only
// [Tags] may be touched by others: by whoever writes or reads the bytes.
//
// It imports the standard library alone, and nothing of the engine.
//
// What it promises, while no table carries a [Bypass]:
//
//  1. Every page but the null page is in exactly one of four states, free,
//     cached, held or pending drain, and the four add up to the pool ([Pool.Audit]).
//  2. A page is handed out only when nobody holds it, the prefix cache does not
//     keep it, and no transfer that targets or reads it is still to be drained.
//  3. Each hand-out begins a new generation; the old one's tag can never pass for it.
//  4. A reference ends once. Ending it again is refused with [ErrReleased].
//  5. Only a page that was written to its last token in its present generation
//     enters the prefix cache or is hit in it, and only under the domain and the
//     tokens that it was written for.
//  6. A refused call changes nothing but the cache (which may have been evicted from).
//
// A metadata slot is a page like any other: a pool of one-token pages without a
// prefix cache has the same generations and the same deferred release.
package kvcache
