// Package follow is the source of facts that an engine gives of itself: its
// lifecycle stream, and what its HTTP endpoints say of its pool, its context and
// its protections.
//
// It imports sidecar/intake, and engine/lifecycle with its packages stream and
// subscribe. Everything that an engine says is hostile input; it promises:
//
//  1. One engine is one Follower, under the name that was configured; an engine
//     that is known by its URL alone is asked for its instance and its endpoint,
//     and may change them [MaxInstances] times.
//  2. An endpoint that an engine names of itself is followed only if it is an IPC
//     file that is called as its instance's must be.
//  3. Answers are bounded in bytes and time, no redirect is followed, and of what
//     they say only numbers and words of closed sets are kept.
//  4. Pools, pages and peers of one engine are bounded; facts beyond that are
//     counted as lost, and do not reach the judge.
//  5. Seen = handled + lost by stage and reason.
package follow
