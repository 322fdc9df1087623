// Package verbs moves KV bytes by RDMA: a writer's NIC writes them into the
// receiver's registered memory, past the receiver's CPU.
//
// libibverbs is loaded when a device is opened, and needed neither to build nor
// to run anything else; [Open] says what is missing. Without cgo it is always
// missing.
//
// A receiver listens on a TCP port, the session that it is registered under. A
// writer connects there, and each side tells of its queue pair, the receiver of
// its regions with their keys too (handshake.go). The connection stays open for as
// long as the queue pairs do, and ends what they do: a receiver has destroyed its
// own before it closes its end.
//
// It imports engine/transfer and the standard library, and promises:
//   - a peer reaches the regions that were registered when it was served, and no
//     other memory: each receiver has a protection domain of its own;
//   - pieces are written in the order in which they are given, over one reliable
//     connection, several regions in one chain of work requests; at most Depth of
//     them are under way;
//   - a transfer that succeeded was acknowledged by the receiver's NIC, every
//     request of it: what polled completions say;
//   - a transfer that was cancelled, or failed, ends only when no write of it can
//     still arrive: each request of it completed, or the receiver has destroyed
//     its queue pair. Where that was not confirmed in time the error is
//     [transfer.ErrUndrained];
//   - queue pair, registration, completion queue and protection domain are
//     released in this order.
//
// The receiver's CPU sees nothing of a write: [transfer.Memory]'s guard is not
// held, and a region must stay registered until its receivers are closed.
package verbs
