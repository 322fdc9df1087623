package transfer

import (
	"context"
	"errors"
)

var (
	// ErrUndrained is returned with the reason of a failure or a cancellation
	// where the receiver did not confirm in time that nothing more can arrive:
	// writes of the transfer may still.
	ErrUndrained = errors.New("writes may still arrive")
	// ErrRefused is returned where the receiver refused a piece, or the sender.
	ErrRefused = errors.New("server refused the transfer")
	// ErrClosed is returned by a receiver or writer that was closed.
	ErrClosed = errors.New("transfer endpoint is closed")
)

// Piece is one run of bytes and where it goes in the receiver's memory. The
// bytes must not change until the transfer has ended.
type Piece struct {
	Source []byte
	Remote uint64
}

// Way is one of the ways in which bytes move.
type Way interface {
	// Serve opens mem to one peer, at an address of host that the system
	// chooses. applied, if the way Counts, hears of each run of bytes once it
	// lies in memory, from the goroutine that put it there.
	Serve(ctx context.Context, mem *Memory, host string, applied func(addr, bytes uint64)) (Receiver, error)
	// Reach returns a writer into what a receiver of this way serves. It
	// connects when there is something to send.
	Reach(session string) Writer
	// Counts says whether a receiver hears of what arrives. Where the bytes come
	// past its CPU it does not, and must look into its memory.
	Counts() bool
}

// Receiver is memory that is open to a peer.
type Receiver interface {
	// Session is where the peer finds it, host:port.
	Session() string
	// Close ends it; when it returns, no byte of the peer can arrive any more.
	Close() error
}

// Writer writes into one receiver's memory. It is safe for use by any
// goroutines.
type Writer interface {
	// Write puts the pieces there, in their order, and returns when they lie in
	// the receiver's memory. Where it returns an error, nothing of the transfer
	// can arrive any more, unless the error is ErrUndrained too.
	Write(ctx context.Context, pieces ...Piece) error
	// Close cancels every transfer and waits until they are drained.
	Close() error
}
