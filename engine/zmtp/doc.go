// Package zmtp speaks ZeroMQ's wire protocol, ZMTP 3.0 and 3.1, with the NULL
// mechanism, over TCP and IPC: what an engine needs to exchange control
// messages and lifecycle events, and what a passive capture needs to read them.
//
// It has two layers. The lower one does no I/O: [Decoder] turns the bytes of
// one direction of a stream into greeting, commands and messages, from the
// first byte or from a known frame boundary, and survives a hole of known
// length inside a frame's body; the Append functions are its inverse;
// [Handshake] is the state machine of a connection's opening. The upper one is
// the sockets: [Pub], [Sub], [Push], [Pull], [Router], [Dealer], [Req].
//
// It imports the standard library only, and promises:
//   - no length that a peer names is allocated before its bytes have arrived,
//     and none beyond a named limit ([Limits], [Config]);
//   - a peer that is silent, stalls in the middle of a message, or says what
//     it may not say is dropped within a named time, and counted;
//   - Publish never waits for a subscriber, and allocates nothing once its
//     queues have grown to their working size; what a subscriber does not take
//     is dropped, newest first, and counted for that subscriber;
//   - everything received is either handed on or still in a bounded queue: a
//     receiver that is full stops reading and so slows its peer, it drops
//     nothing;
//   - Close returns when every goroutine of the socket has ended.
//
// The format is the one of the specifications 23/ZMTP and 37/ZMTP of the
// ZeroMQ project; test/peers holds it against libzmq.
package zmtp
