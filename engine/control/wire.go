package control

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/kvwitness/kvwitness/engine/pdwire"
	"github.com/kvwitness/kvwitness/engine/zmtp"
)

const (
	// connectTimeout is how long a peer's control socket may take to answer.
	connectTimeout = 5 * time.Second
	// maxPending bounds what is said before the connection stands.
	maxPending = 4096
)

// wire is one life of a connection to a peer's control socket. What is sent before
// it stands waits; once it is lost it stays lost.
type wire struct {
	push *zmtp.Push
	once sync.Once
	gone chan struct{} // closed when the wire is lost

	mu      sync.Mutex
	up      bool
	lost    bool
	ready   chan struct{} // closed when it stands
	pending [][][]byte
}

// dial connects. Gone is closed if the peer does not answer in time.
func dial(address string) (*wire, error) {
	w := &wire{ready: make(chan struct{}), gone: make(chan struct{})}
	w.push = zmtp.NewPush(zmtp.Config{Observe: w.observe})
	if err := w.push.Connect("tcp://" + address); err != nil {
		return nil, fmt.Errorf("connect to the control socket of %s: %w", address, err)
	}
	time.AfterFunc(connectTimeout, func() {
		select {
		case <-w.ready:
		default:
			w.lose()
		}
	})
	return w, nil
}

func (w *wire) observe(e zmtp.PeerEvent) {
	switch e.Kind {
	case zmtp.PeerUp:
		w.stand()
	case zmtp.PeerDown:
		w.lose()
	}
}

// stand sends what has waited.
func (w *wire) stand() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.up || w.lost {
		return
	}
	w.up = true
	close(w.ready)
	go w.flush()
}

func (w *wire) flush() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, frames := range w.pending {
		w.try(frames)
	}
	w.pending = nil
}

// send never waits.
func (w *wire) send(m pdwire.Message) {
	frames := m.Frames()
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.lost:
	case w.up && len(w.pending) == 0:
		w.try(frames)
	case len(w.pending) < maxPending:
		w.pending = append(w.pending, frames)
	default:
		w.loseLocked()
	}
}

var expired = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// try queues a message if there is room; a peer that does not take its messages
// is cut off, since one that it never gets would hold pages for ever.
func (w *wire) try(frames [][]byte) {
	if !w.lost && w.push.Send(expired, frames...) != nil {
		w.loseLocked()
	}
}

func (w *wire) lose() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.loseLocked()
}

func (w *wire) loseLocked() {
	w.lost = true
	w.once.Do(func() { close(w.gone) })
}

func (w *wire) close() error {
	w.lose()
	return w.push.Close()
}

func splitAddress(address string) (pdwire.Address, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return pdwire.Address{}, err
	}
	n, err := strconv.ParseUint(port, 10, 16)
	return pdwire.Address{Host: host, Port: uint16(n)}, err
}

func joinAddress(a pdwire.Address) string {
	return net.JoinHostPort(a.Host, strconv.Itoa(int(a.Port)))
}

// listen binds a control socket and returns its address.
func listen(ctx context.Context, pull *zmtp.Pull, host string, port int) (string, error) {
	name, err := pull.Bind(ctx, "tcp://"+net.JoinHostPort(host, strconv.Itoa(port)))
	if err != nil {
		return "", fmt.Errorf("listen for control messages: %w", err)
	}
	const scheme = "tcp://"
	return name[len(scheme):], nil
}
