package tcp

import (
	"context"
	"errors"
	"net"

	"github.com/kvwitness/kvwitness/engine/transfer"
)

// Way is transfer.Way over TCP, with the defaults of both sides.
type Way struct{}

var _ transfer.Way = Way{}

type served struct {
	*Server
	session string
}

// Session implements transfer.Receiver.
func (r served) Session() string { return r.session }

// Serve implements transfer.Way.
func (Way) Serve(ctx context.Context, mem *transfer.Memory, host string, applied func(addr, bytes uint64)) (transfer.Receiver, error) {
	s := NewServer(mem, ServerConfig{Applied: applied})
	session, err := s.Listen(ctx, net.JoinHostPort(host, "0"))
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return served{s, session}, nil
}

// Reach implements transfer.Way.
func (Way) Reach(session string) transfer.Writer { return NewClient(session, ClientConfig{}) }

// Counts implements transfer.Way: a server sees each byte.
func (Way) Counts() bool { return true }
