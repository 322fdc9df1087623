package zmtp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

var (
	// ErrTooManyPeers is why a connection beyond MaxPeers is closed.
	ErrTooManyPeers = errors.New("too many peers")
	// ErrUnexpected is why a peer is dropped that sends what its type of
	// socket does not send.
	ErrUnexpected = errors.New("peer sent what its socket may not send")
)

// behaviour is what differs between the types of socket.
type behaviour interface {
	// up admits a peer whose handshake is done; an error refuses it.
	up(*peer) error
	down(*peer)
	message(p *peer, frames [][]byte, size int) error
	subscription(p *peer, on bool, prefix []byte) error
}

// core is what every socket is made of: it owns the listeners, the
// connections and all their goroutines.
type core struct {
	typ    Type
	cfg    Config
	limits Limits // of what peers may send to this type
	does   behaviour
	in     inbox
	room   bell // a peer came, or has room again
	count  counters

	ctx  context.Context
	stop context.CancelFunc
	wg   sync.WaitGroup

	mu        sync.Mutex
	closed    bool
	listeners []net.Listener
	conns     map[net.Conn]struct{}
	peers     atomic.Pointer[[]*peer] // never changed in place
}

func newCore(typ Type, cfg Config, does behaviour) *core {
	cfg = cfg.withDefaults()
	c := &core{typ: typ, cfg: cfg, limits: cfg.Limits, does: does, conns: make(map[net.Conn]struct{})}
	c.in.maxMessages, c.in.maxBytes = cfg.ReceiveMessages, cfg.ReceiveBytes
	c.ctx, c.stop = context.WithCancel(context.Background())
	if typ == PubType {
		// A subscriber sends subscriptions and nothing longer.
		c.limits = Limits{FrameBytes: cfg.SubscriptionBytes + 1, MessageBytes: cfg.SubscriptionBytes + 1, Frames: 1}
	}
	if c.strict() {
		c.wg.Add(1)
		go c.heartbeat()
	}
	return c
}

// strict says that a peer of this type never has a reason to stop reading or
// to leave a PING unanswered for long, so that one which does may be dropped.
func (c *core) strict() bool {
	return c.typ == PubType || c.typ == SubType || c.typ == PullType
}

func (c *core) current() []*peer {
	if ps := c.peers.Load(); ps != nil {
		return *ps
	}
	return nil
}

func (c *core) connections() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.conns)
}

// bind listens and returns the endpoint with the port that the system chose.
func (c *core) bind(ctx context.Context, address string) (string, error) {
	e, err := parseEndpoint(address)
	if err != nil {
		return "", err
	}
	l, err := e.listen(ctx)
	if err != nil {
		return "", fmt.Errorf("bind %s: %w", address, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		_ = l.Close()
		return "", fmt.Errorf("bind %s: %w", address, ErrClosed)
	}
	c.listeners = append(c.listeners, l)
	c.wg.Add(1)
	go c.accept(l)
	return boundName(l), nil
}

// connect keeps a connection to the endpoint until the socket is closed.
func (c *core) connect(address string) error {
	e, err := parseEndpoint(address)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return fmt.Errorf("connect %s: %w", address, ErrClosed)
	}
	c.wg.Add(1)
	go c.keepConnected(e)
	return nil
}

func (c *core) accept(l net.Listener) {
	defer c.wg.Done()
	for {
		conn, err := l.Accept()
		switch {
		case err == nil:
			c.wg.Add(1)
			go func() {
				defer c.wg.Done()
				c.serve(conn)
			}()
		case errors.Is(err, net.ErrClosed) || c.ctx.Err() != nil:
			return
		default:
			// Out of descriptors, most likely: they come back.
			_ = sleep(c.ctx, acceptPause)
		}
	}
}

func (c *core) keepConnected(e endpoint) {
	defer c.wg.Done()
	for attempt := 0; c.ctx.Err() == nil; attempt++ {
		conn, err := e.dial(c.ctx)
		if err == nil && c.serve(conn) {
			attempt = 0
		} else if err != nil && c.ctx.Err() == nil {
			c.count.failures.Add(1)
			c.cfg.Observe(PeerEvent{Kind: ConnectFailed, Remote: e.address, Err: err})
		}
		if c.cfg.Sleep(c.ctx, c.cfg.Reconnect.Delay(attempt, c.cfg.Random())) != nil {
			return
		}
	}
}

// serve runs one connection to its end and says whether its handshake was
// completed.
func (c *core) serve(conn net.Conn) (wasUp bool) {
	defer conn.Close()
	if err := c.admit(conn); err != nil {
		c.refuse(&peer{conn: conn, remote: remoteName(conn)}, err)
		return false
	}
	defer c.forget(conn)
	p, err := c.open(conn)
	if err == nil {
		err = c.join(p)
	}
	if err != nil {
		c.refuse(p, err)
		return false
	}
	err = c.receive(p)
	c.leave(p)
	_ = conn.Close()
	<-p.flushed
	if c.ctx.Err() != nil {
		err = nil
	} else {
		c.count.broken.Add(1)
	}
	c.cfg.Observe(PeerEvent{Kind: PeerDown, Remote: p.remote, Info: p.info, Credentials: p.cred, Err: err})
	return true
}

func (c *core) refuse(p *peer, err error) {
	if c.ctx.Err() != nil {
		return
	}
	c.count.refused.Add(1)
	c.cfg.Observe(PeerEvent{Kind: PeerRefused, Remote: p.remote, Info: p.info, Credentials: p.cred, Err: err})
}

func (c *core) admit(conn net.Conn) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return ErrClosed
	}
	if len(c.conns) >= c.cfg.MaxPeers {
		return fmt.Errorf("accept connection %d: %w", len(c.conns)+1, ErrTooManyPeers)
	}
	c.conns[conn] = struct{}{}
	return nil
}

func (c *core) forget(conn net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.conns, conn)
}

// join makes a peer known to the socket and starts its writer.
func (c *core) join(p *peer) error {
	if err := c.does.up(p); err != nil {
		return err
	}
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		c.does.down(p)
		return ErrClosed
	}
	next := append(slices.Clone(c.current()), p)
	c.peers.Store(&next)
	c.wg.Add(1)
	go func() {
		defer c.wg.Done()
		c.send(p)
	}()
	c.mu.Unlock()
	c.count.up.Add(1)
	c.room.ring()
	c.cfg.Observe(PeerEvent{Kind: PeerUp, Remote: p.remote, Info: p.info, Credentials: p.cred})
	return nil
}

func (c *core) leave(p *peer) {
	c.mu.Lock()
	next := slices.DeleteFunc(slices.Clone(c.current()), func(q *peer) bool { return q == p })
	c.peers.Store(&next)
	c.mu.Unlock()
	c.does.down(p)
	c.count.lost.Add(uint64(p.out.abandon()))
	close(p.gone)
	c.room.ring()
}

func (c *core) heartbeat() {
	defer c.wg.Done()
	ping := AppendCommand(nil, CommandPing, []byte{0, 0})
	for sleep(c.ctx, c.cfg.HeartbeatInterval) == nil {
		for _, p := range c.current() {
			if p.info.Minor >= 1 {
				// One that cannot take even this is the writer's to drop.
				p.out.putRaw(ping)
			}
		}
	}
}

// shut sends what is queued for at most Linger, then ends everything and
// waits for it.
func (c *core) shut() error {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		c.wg.Wait()
		return nil
	}
	c.closed = true
	listeners, peers := c.listeners, c.current()
	c.mu.Unlock()
	var errs []error
	for _, l := range listeners {
		errs = append(errs, l.Close())
	}
	c.flush(peers)
	c.stop()
	c.mu.Lock()
	for conn := range c.conns {
		_ = conn.Close()
	}
	c.mu.Unlock()
	c.wg.Wait()
	return errors.Join(errs...)
}

func (c *core) flush(peers []*peer) {
	for _, p := range peers {
		p.out.close()
	}
	over := time.NewTimer(c.cfg.Linger)
	defer over.Stop()
	for _, p := range peers {
		select {
		case <-p.flushed:
		case <-over.C:
			return
		}
	}
}
