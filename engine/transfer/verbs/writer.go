//go:build linux && cgo

package verbs

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/kvwitness/kvwitness/engine/transfer"
)

// maxPieces bounds one transfer.
const maxPieces = 65536

var (
	errClosed    = fmt.Errorf("transfer was cancelled: %w", transfer.ErrClosed)
	errUnusable  = errors.New("unusable batch")
	errTransient = errors.New("the connection ended")
)

// writer writes into one receiver's memory, one transfer after the other.
type writer struct {
	d       *device
	session string
	// drainTimeout is how long the receiver may take to destroy its queue pair.
	drainTimeout time.Duration

	closing context.Context
	close   context.CancelFunc
	// turn is held by the one that uses link.
	turn sync.Mutex
	link *link // nil: none stands
}

func newWriter(d *device, session string) *writer {
	w := &writer{d: d, session: session, drainTimeout: drainTimeout}
	w.closing, w.close = context.WithCancel(context.Background())
	return w
}

// Write implements transfer.Writer.
func (w *writer) Write(ctx context.Context, pieces ...transfer.Piece) error {
	if len(pieces) == 0 || len(pieces) > maxPieces {
		return fmt.Errorf("write %d pieces, at most %d: %w", len(pieces), maxPieces, errUnusable)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(w.closing, func() { cancel(errClosed) })()
	w.turn.Lock()
	defer w.turn.Unlock()
	if w.closing.Err() != nil {
		return fmt.Errorf("write by verbs: %w", errClosed)
	}
	if err := context.Cause(ctx); err != nil {
		return fmt.Errorf("write by verbs: %w", err)
	}
	if w.link != nil && w.link.ended() {
		if err := w.part(); err != nil {
			return fmt.Errorf("end a connection to %s: %w", w.session, err)
		}
	}
	if w.link == nil {
		var err error
		if w.link, err = connect(ctx, w.d, w.session); err != nil {
			return fmt.Errorf("connect for transfer to %s: %w", w.session, err)
		}
	}
	slices, err := w.link.cut(pieces)
	if err != nil {
		return err
	}
	err = w.link.run(ctx, slices)
	if err == nil || w.link.intact() {
		return err // nothing of it is under way
	}
	if !w.link.drain(w.drainTimeout) {
		err = errors.Join(err, transfer.ErrUndrained)
	}
	return errors.Join(err, w.part())
}

// part releases the connection.
func (w *writer) part() error {
	err := w.link.release()
	w.link = nil
	return err
}

// Close implements transfer.Writer.
func (w *writer) Close() error {
	w.close()
	w.turn.Lock()
	defer w.turn.Unlock()
	if w.link == nil {
		return nil
	}
	return w.part()
}
