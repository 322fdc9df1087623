// Package tcp moves KV bytes as Mooncake's TCP transport does: the sender
// connects and says for each piece a header of 24 bytes (size u64, address
// u64, opcode u8, padding to the struct's alignment; little-endian), then the
// bytes. Only the sender says headers. What watches Mooncake can watch this.
//
// It imports engine/transfer and the standard library, and promises:
//   - a server writes and reads within registered regions alone; a header that
//     reaches beyond is refused before a byte of its body is read, and counted;
//   - a transfer that succeeded is applied: every byte lies in the receiver's
//     memory. Mooncake's first protocol has no acknowledgement, so the client
//     ends a transfer with a READ of the last byte it wrote, which the server,
//     taking one header after the other, answers only when all is written; the
//     second protocol (opcode with its high bit set) acknowledges each piece;
//   - a transfer that was cancelled, or failed, ends only when no write of it
//     can still arrive: nothing was sent, or the rest was confirmed, or the
//     connection was ended from this side and the server has closed its own.
//     Where the server did not do that in time, the error is [ErrUndrained],
//     and the receiver's pages must not be handed out on its word.
//
// A server in front of which something else terminates TCP would break the
// last promise: the close must be the server's own.
package tcp
