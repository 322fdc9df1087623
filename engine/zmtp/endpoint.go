package zmtp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"
)

// ErrEndpoint is returned for an address that is neither tcp://host:port nor
// ipc://path.
var ErrEndpoint = errors.New("unusable endpoint")

// ipcMode keeps other users from connecting at all; CheckPeer decides among
// those who can.
const ipcMode = 0o600

// staleDialTimeout is how long a socket file's owner has to show it is alive.
const staleDialTimeout = time.Second

type endpoint struct {
	network string // "tcp" or "unix"
	address string
}

// parseEndpoint reads ZeroMQ's form of an address: tcp://127.0.0.1:5557,
// tcp://*:5557 (every interface, for a bind), ipc:///run/x.sock, ipc://@name
// (Linux's abstract namespace).
func parseEndpoint(s string) (endpoint, error) {
	scheme, rest, ok := strings.Cut(s, "://")
	if !ok || rest == "" {
		return endpoint{}, fmt.Errorf("read endpoint %q: want tcp://host:port or ipc://path: %w", s, ErrEndpoint)
	}
	switch scheme {
	case "tcp":
		host, port, err := net.SplitHostPort(rest)
		if err != nil {
			return endpoint{}, fmt.Errorf("read endpoint %q: %v: %w", s, err, ErrEndpoint)
		}
		if host == "*" {
			host = ""
		}
		return endpoint{"tcp", net.JoinHostPort(host, port)}, nil
	case "ipc":
		return endpoint{"unix", rest}, nil
	}
	return endpoint{}, fmt.Errorf("read endpoint %q: transport %q: %w", s, scheme, ErrEndpoint)
}

func (e endpoint) listen(ctx context.Context) (net.Listener, error) {
	if e.network != "unix" {
		var lc net.ListenConfig
		return lc.Listen(ctx, e.network, e.address)
	}
	if err := e.removeStale(); err != nil {
		return nil, err
	}
	l, err := net.Listen("unix", e.address)
	if err != nil {
		return nil, err
	}
	if !e.abstract() {
		if err := os.Chmod(e.address, ipcMode); err != nil {
			_ = l.Close()
			return nil, fmt.Errorf("restrict socket file: %w", err)
		}
	}
	return l, nil
}

func (e endpoint) abstract() bool { return strings.HasPrefix(e.address, "@") }

// removeStale removes the file of a socket that nobody listens on: a process
// that was killed leaves it behind. Anything else at that path stays.
func (e endpoint) removeStale() error {
	if e.abstract() {
		return nil
	}
	info, err := os.Lstat(e.address)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.Mode().Type() != os.ModeSocket {
		return fmt.Errorf("%s exists and is no socket: remove it or choose another path", e.address)
	}
	c, err := net.DialTimeout("unix", e.address, staleDialTimeout)
	if err == nil {
		_ = c.Close()
		return fmt.Errorf("%s has a listener already", e.address)
	}
	return os.Remove(e.address)
}

func (e endpoint) dial(ctx context.Context) (net.Conn, error) {
	d := net.Dialer{Timeout: dialTimeout}
	return d.DialContext(ctx, e.network, e.address)
}

// boundName returns the endpoint in ZeroMQ's form with the port that the
// system chose.
func boundName(l net.Listener) string {
	if a, ok := l.Addr().(*net.UnixAddr); ok {
		return "ipc://" + a.Name
	}
	return "tcp://" + l.Addr().String()
}
