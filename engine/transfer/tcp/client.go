package tcp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kvwitness/kvwitness/engine/transfer"
)

var (
	// ErrUndrained is returned where the server did not close in time.
	ErrUndrained = transfer.ErrUndrained
	// ErrRefused is returned too where the server closed before it confirmed a
	// piece, which is how the first protocol refuses.
	ErrRefused = transfer.ErrRefused
	// ErrBusy is returned by Post where the queue is full.
	ErrBusy = errors.New("too many transfers wait")
	// ErrBatch is returned for a transfer of no pieces, too many, or an empty
	// one.
	ErrBatch = errors.New("unusable batch")
)

// Defaults of a [ClientConfig].
const (
	DefaultLanes       = 4
	DefaultMaxQueued   = 1024
	DefaultMaxPieces   = 65536
	DefaultDialTimeout = 5 * time.Second
	// DefaultDrainTimeout leaves a server more than its own stall time-out.
	DefaultDrainTimeout = 2 * DefaultStallTimeout
)

// ClientConfig bounds a client. A zero field means its default.
type ClientConfig struct {
	// Lanes is how many connections carry transfers side by side; one transfer
	// keeps to one of them, and its pieces arrive in order.
	Lanes int
	// MaxQueued bounds the transfers that wait for a lane, MaxPieces the
	// pieces of one transfer.
	MaxQueued int
	MaxPieces int
	// DialTimeout bounds connecting. StallTimeout is how long the server may
	// take for the next 64 KiB, or for a confirmation. DrainTimeout is how
	// long a transfer that ended early may take to be drained.
	DialTimeout  time.Duration
	StallTimeout time.Duration
	DrainTimeout time.Duration
	// Acknowledged speaks the second version of the protocol, whose server
	// confirms each piece. Ask for it only where the server has it.
	Acknowledged bool
}

func (c ClientConfig) withDefaults() ClientConfig {
	for _, d := range []struct {
		field *int
		value int
	}{{&c.Lanes, DefaultLanes}, {&c.MaxQueued, DefaultMaxQueued}, {&c.MaxPieces, DefaultMaxPieces}} {
		if *d.field <= 0 {
			*d.field = d.value
		}
	}
	for _, d := range []struct {
		field *time.Duration
		value time.Duration
	}{{&c.DialTimeout, DefaultDialTimeout}, {&c.StallTimeout, DefaultStallTimeout}, {&c.DrainTimeout, DefaultDrainTimeout}} {
		if *d.field <= 0 {
			*d.field = d.value
		}
	}
	return c
}

// Piece is one run of bytes and where it goes.
type Piece = transfer.Piece

// Transfer is a batch of pieces under way.
type Transfer struct {
	c      *Client
	op     Opcode
	pieces []Piece

	taken    atomic.Bool   // by a lane, or by Cancel before one came
	stop     chan struct{} // closed by Cancel
	stopOnce sync.Once
	done     chan struct{} // closed by finish
	err      error         // valid once done is closed
	sent     atomic.Uint64
}

// Done is closed when the transfer has ended, drained as far as that is known.
func (t *Transfer) Done() <-chan struct{} { return t.done }

// Err returns why the transfer failed; call it once Done is closed.
func (t *Transfer) Err() error { return t.err }

// Sent returns how many bytes were handed to the system so far, without
// headers. A transfer that ended without an error has applied them all.
func (t *Transfer) Sent() uint64 { return t.sent.Load() }

// Cancel asks the transfer to end early. It does not wait: Wait does, or Done.
// One that no lane has begun ends at once.
func (t *Transfer) Cancel() {
	t.stopOnce.Do(func() { close(t.stop) })
	if t.taken.CompareAndSwap(false, true) {
		t.c.record(t, errCancelled)
	}
}

var errCancelled = fmt.Errorf("transfer was cancelled: %w", context.Canceled)

// Wait waits until the transfer has ended. If ctx ends first, it cancels the
// transfer, waits until no write of it can still arrive, at most DrainTimeout,
// and returns the context's error, joined with [ErrUndrained] where that could
// not be shown.
func (t *Transfer) Wait(ctx context.Context) error {
	select {
	case <-t.done:
		return t.err
	case <-ctx.Done():
	}
	t.Cancel()
	<-t.done
	if errors.Is(t.err, context.Canceled) {
		return errors.Join(fmt.Errorf("wait for transfer: %w", ctx.Err()), t.err)
	}
	return t.err
}

func (t *Transfer) stopped() bool {
	select {
	case <-t.stop:
		return true
	default:
		return false
	}
}

func (t *Transfer) finish(err error) {
	t.err = err
	close(t.done)
}

// ClientStats counts what a client did. Posted = Succeeded + Failed +
// Cancelled + what is under way.
type ClientStats struct {
	Posted, Succeeded, Failed, Cancelled uint64
	Undrained                            uint64 // of Failed and Cancelled
	Bytes                                uint64 // of transfers that succeeded
	Queued                               int    // waiting for a lane
}

// Client writes into one server's memory, and reads from it.
type Client struct {
	address string
	cfg     ClientConfig
	queue   chan *Transfer
	closing chan struct{}
	wg      sync.WaitGroup

	mu     sync.Mutex // Post against Close
	closed bool

	posted, succeeded, failed, cancelled, undrained, bytes atomic.Uint64
}

// NewClient returns a client for the server at a TCP address. It connects when
// there is something to send.
func NewClient(address string, cfg ClientConfig) *Client {
	cfg = cfg.withDefaults()
	c := &Client{address: address, cfg: cfg, queue: make(chan *Transfer, cfg.MaxQueued), closing: make(chan struct{})}
	c.wg.Add(cfg.Lanes)
	for range cfg.Lanes {
		l := &lane{c: c}
		go l.run()
	}
	return c
}

// Post queues a batch of writes and returns at once.
func (c *Client) Post(pieces []Piece) (*Transfer, error) { return c.post(Write, pieces) }

// Write posts a batch and waits for it; see [Transfer.Wait].
func (c *Client) Write(ctx context.Context, pieces ...Piece) error {
	t, err := c.Post(pieces)
	if err != nil {
		return err
	}
	return t.Wait(ctx)
}

// Read fills each piece's Source from the server's memory: what a connector
// that pulls does. Where it fails, what it filled is undefined.
func (c *Client) Read(ctx context.Context, pieces ...Piece) error {
	t, err := c.post(Read, pieces)
	if err != nil {
		return err
	}
	return t.Wait(ctx)
}

func (c *Client) post(op Opcode, pieces []Piece) (*Transfer, error) {
	if len(pieces) == 0 || len(pieces) > c.cfg.MaxPieces {
		return nil, fmt.Errorf("post %d pieces, at most %d: %w", len(pieces), c.cfg.MaxPieces, ErrBatch)
	}
	for i, p := range pieces {
		if len(p.Source) == 0 {
			return nil, fmt.Errorf("post piece %d of 0 bytes: %w", i, ErrBatch)
		}
	}
	t := &Transfer{c: c, op: op, pieces: pieces, stop: make(chan struct{}), done: make(chan struct{})}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, fmt.Errorf("post transfer: %w", ErrClosed)
	}
	select {
	case c.queue <- t:
		c.posted.Add(1)
		return t, nil
	default:
		return nil, fmt.Errorf("post transfer %d of a queue: %w", c.cfg.MaxQueued+1, ErrBusy)
	}
}

// Close cancels every transfer and waits until they are drained.
func (c *Client) Close() error {
	c.mu.Lock()
	if !c.closed {
		c.closed = true
		close(c.closing)
		close(c.queue)
	}
	c.mu.Unlock()
	c.wg.Wait()
	return nil
}

// Stats returns the client's counters.
func (c *Client) Stats() ClientStats {
	return ClientStats{
		Posted: c.posted.Load(), Succeeded: c.succeeded.Load(), Failed: c.failed.Load(), Cancelled: c.cancelled.Load(),
		Undrained: c.undrained.Load(), Bytes: c.bytes.Load(), Queued: len(c.queue),
	}
}

func (c *Client) record(t *Transfer, err error) {
	switch {
	case err == nil:
		c.succeeded.Add(1)
		c.bytes.Add(t.Sent())
	case errors.Is(err, context.Canceled) || errors.Is(err, ErrClosed):
		c.cancelled.Add(1)
	default:
		c.failed.Add(1)
	}
	if errors.Is(err, ErrUndrained) {
		c.undrained.Add(1)
	}
	t.finish(err)
}

func (c *Client) dial() (*net.TCPConn, error) {
	conn, err := net.DialTimeout("tcp", c.address, c.cfg.DialTimeout)
	if err != nil {
		return nil, fmt.Errorf("connect for transfer: %w", err)
	}
	return conn.(*net.TCPConn), nil
}
