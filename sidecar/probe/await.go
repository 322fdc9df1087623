package probe

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/kvwitness/kvwitness/sidecar/beside"
)

// Guest is a probe that something else started, and that connected. Read it from one
// goroutine.
type Guest struct {
	*Reader
	conn *net.UnixConn
}

// Await waits at a socket for a probe (kvwitness-probe --connect) and returns once it
// has said hello. What is watched was said to it where it was started.
func Await(ctx context.Context, path string) (*Guest, error) {
	conn, err := beside.Accept(ctx, path)
	if err != nil {
		return nil, err
	}
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })() // one that says nothing
	r, err := NewReader(conn)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("take the probe at %s: %w", path, err), conn.Close())
	}
	return &Guest{r, conn}, nil
}

// Close lets the probe go: it ends.
func (g *Guest) Close() error { return g.conn.Close() }
