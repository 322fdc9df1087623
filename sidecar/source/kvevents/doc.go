// Package kvevents is the source of facts that SGLang's and vLLM's KV events are: what
// enters the prefix cache and leaves it, and under which salt.
//
// It imports engine/lifecycle with its package stream, engine/zmtp, and
// sidecar/intake. What an engine says is hostile input; it promises:
//
//  1. Both engines' events are read in all forms that are known: arrays and maps, with
//     and without medium, rank and salt, hashes as integers or as bytes. What is not
//     known is counted and passed over.
//  2. Token ids are dropped on decoding: they are stepped over, and reach no value. Of
//     a salt only a keyed hash is kept, under a key that is drawn for each process.
//  3. Each data-parallel rank is a stream of its own. What was missed is asked for
//     again; what cannot be had, and a restart, empties what is known of that rank.
//  4. What is remembered is bounded by [MaxBlocks] a rank, what waits by the sockets.
//  5. Batches seen = read + lost, by reason.
//
// The events name contents, and neither pages nor requests. What can be judged of them
// is whether a block of one salt is used under another: the source keeps blocks that
// were stored under a salt as pages of a pool of its own, named prefix, whose page
// numbers are slots of its table and no places in memory, and says that a block is
// shared where it is stored again, or built upon, under another salt. The ledger finds
// tenant_crossing in it. A request without a salt is of an unknown domain.
package kvevents
