// Package control is what prefill and decode say to each other besides the bytes:
// SGLang's frames over ZMTP, and its bootstrap over HTTP. [Prefill] and [Decode]
// are the two ends; each implements worker.Link.
//
// It imports engine/worker and what is below it, engine/pdwire, engine/zmtp and
// engine/transfer/tcp. An instance is known to its peers by the address of its
// control socket; where its bytes go is a session, one for each connection, so that
// closing a session proves that nothing more of that peer can arrive.
//
// It promises:
//   - PeerGone is reported, and taken in, before anything is named on a new
//     connection to the same peer;
//   - a message that cannot be sent ends its peer's connection: none is lost with
//     the connection still standing;
//   - nobody connects anywhere because a client's request says so: decode connects
//     to the prefills that it was configured with, prefill to who registered;
//   - what a peer says is bounded (engine/pdwire) and checked against what was
//     registered; content is neither logged nor kept.
package control
