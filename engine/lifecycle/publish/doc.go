// Package publish tells what an engine does, as lifecycle facts: it listens to
// the scheduler and to each pool, and sends what it hears to whoever subscribes
// ([Publisher]), to a trace file ([Recorder]), or to both.
//
// An engine calls the methods of a [Teller], which puts what happened into a
// bounded queue and returns. One goroutine takes it out, keeps books of what the
// facts say so far, and makes the facts. So whoever comes late can be given a
// snapshot that agrees with the stream to the fact, and the engine takes no part
// in it.
//
// It imports engine/lifecycle with its package stream, engine/zmtp,
// engine/scheduler and engine/kvcache. It promises:
//
//  1. No method of a Teller waits, fails, or allocates once the queue has grown
//     to its working size, whatever subscribers, disks and strangers do.
//  2. What does not fit into the queue is counted, and missing in the facts' seq.
//  3. The facts of one Teller have rising times: where the engine gives several
//     things one time, each is dated a nanosecond after the one before, since
//     their order is known.
//  4. A domain that does not look like a hash is withheld, and counted.
//  5. Subscribers, what they ask for and what is kept for them are bounded.
//  6. A snapshot does not stop the engine: it is made from the books, aside, and
//     they are copied in slices, so that it keeps no processor for long either.
//
// What needs translation, because facts are about what may still be touched:
//
//   - A request that ends while a transfer targets or reads its pages gives them
//     up at once in the pool, which keeps them back (pending drain). In facts it
//     holds them until they are drained: pages_released comes after
//     transfer_drained, pages_evicted too, and pool_audit counts them as held or
//     cached. Where the pool was told not to wait, which the scheduler shows by
//     not saying that DrainBeforeRelease ran right after the release, the release
//     is said at once.
//   - The scheduler numbers transfers for itself, on both sides. The receiver's
//     are named r1, r2, …, the sender's s1, s2, …, so that they are not taken for
//     one another.
//   - Only a receiver's completion is marked last, and of several writers the last
//     one's: a handoff is judged at last, and what a sender has sent may lie on the
//     way. Only it says tokens, which are in all, where a sender knows its batch.
package publish
