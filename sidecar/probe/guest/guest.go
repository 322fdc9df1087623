// Package guest takes a probe that something else started.
//
// It imports sidecar/probe and sidecar/beside/listen; the probe itself must not import
// it (see there). It promises that a probe that connects and says nothing holds nobody
// beyond the context.
package guest

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/kvwitness/kvwitness/sidecar/beside/listen"
	"github.com/kvwitness/kvwitness/sidecar/probe"
)

// Guest is a probe that something else started, and that connected. Read it from one
// goroutine.
type Guest struct {
	*probe.Reader
	conn *net.UnixConn
}

// Await waits at a socket for a probe (kvwitness-probe --connect) and returns once it
// has said hello. What is watched was said to it where it was started.
func Await(ctx context.Context, path string) (*Guest, error) {
	conn, err := listen.Accept(ctx, path)
	if err != nil {
		return nil, err
	}
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })() // one that says nothing
	r, err := probe.NewReader(conn)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("take the probe at %s: %w", path, err), conn.Close())
	}
	return &Guest{r, conn}, nil
}

// Close lets the probe go: it ends.
func (g *Guest) Close() error { return g.conn.Close() }
