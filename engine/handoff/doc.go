// Package handoff moves a request's pages from the memory of a prefill instance
// to that of a decode instance, and knows on both sides what arrived.
//
// A [Memory] is what peers may reach: the pages of the backend, their written
// tags, and the metadata slots with theirs. A [Sender] carries out one
// scheduler.StartTransfer; [Arrivals] turns the bytes that a receiver counted
// into pages that a writer has written whole.
//
// It imports engine/backend, engine/kvcache, engine/scheduler, engine/transfer and
// kernels/reference, and promises:
//   - what is sent is a copy, taken between two checks of the source's tags, and
//     the digest is over that copy: no byte can change between the checks, the
//     digest and the wire;
//   - rows of a last page that hold no token of the request leave as zeros;
//   - a target's tag is cleared before its bytes and stamped after them, on the
//     same ordered connection, and never where the source was at fault;
//   - a page counts as arrived from a writer when every byte of every region that
//     this writer brings has been written into memory.
package handoff
