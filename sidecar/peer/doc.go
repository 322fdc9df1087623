// Package peer hands facts from one node's sidecar to another's.
//
// Of a handoff between two nodes neither sees enough: the sender's node sees what is
// written into the receiver's memory (RDMA is posted there), and what its own engine
// says of the transfer; the receiver's node sees what was reserved and released. So
// each sidecar serves what its own node knows, and dials those whose engines its own
// hand to or take from. A [Server] hands on
//
//   - the lifecycle streams of its own engines, to those who follow them: for each a
//     subscription of its own, so that one who comes late begins with a snapshot, and
//     what one who is slow misses shows as a stream_gap;
//   - what its probe saw of the memory of an instance that the other node says is its
//     own, and the sight that it has of its own engines' writes there.
//
// A [Link] takes that in, and joins it with what its own node knows: in order, by the
// offset of the two clocks, which it measures on the same connection ([Clock]).
//
// It imports engine/lifecycle with its package subscribe, sidecar/credentials and
// sidecar/intake. A peer
// has shown a certificate, or on loopback the token, and may be broken all the same.
// It promises:
//
//  1. A fact is believed of whom the peer can know it: claims of the peer's engines
//     about themselves, observations of this node's memory, and sight of what the
//     peer's own engines write there. Nothing else passes ([ErrNotTheirs]).
//  2. A fact is taken once, and what came from a peer is handed on to nobody.
//  3. All that a peer says is bounded by named limits, and so is its pace.
//  4. Nothing is dropped within a connection: whatever cannot be handed on or taken
//     in ends it. How it ended is counted ([End]).
//  5. When it ends, or is behind for longer than the patience, the judge is told, before
//     it judges what comes later, that the peer's engines are out of sight and that
//     nobody sees what they write: it accuses nobody for the silence.
//  6. No engine waits for a peer, and the node's own judge for no longer than the
//     patience and what it takes this process to notice.
package peer
