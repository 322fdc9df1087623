package tcp

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kvwitness/kvwitness/engine/transfer"
)

// Defaults of a [ServerConfig].
const (
	DefaultMaxConns     = 256
	DefaultIdleTimeout  = 5 * time.Minute
	DefaultStallTimeout = 10 * time.Second
	// chunkBytes is what is read from a peer before it is copied into memory.
	chunkBytes  = 64 << 10
	acceptPause = 50 * time.Millisecond
)

// ErrClosed is returned by a server or client that was closed.
var ErrClosed = transfer.ErrClosed

// ServerConfig bounds a server. A zero field means its default.
type ServerConfig struct {
	// MaxConns bounds connections; one more is closed at once.
	MaxConns int
	// IdleTimeout is how long a peer may say nothing between two pieces.
	IdleTimeout time.Duration
	// StallTimeout is how long a peer may take for the rest of a header, or
	// for the next 64 KiB of a body in either direction.
	StallTimeout time.Duration
	// Applied, if set, is told of each WRITE once all its bytes lie in memory,
	// before it is acknowledged. It is called from the connections'
	// goroutines; the peer waits for it.
	Applied func(addr, bytes uint64)
}

// ServerStats counts what a server did. Every header is one of Writes, Reads,
// the three refusals, or Cut.
type ServerStats struct {
	Conns        int    // now
	ConnsRefused uint64 // because of MaxConns
	Writes       uint64 // applied whole
	Reads        uint64 // answered whole
	BytesWritten uint64 // into memory, those of cut writes included
	BytesRead    uint64

	RefusedAddress uint64 // outside every region, from the header on or since
	RefusedOpcode  uint64
	RefusedEmpty   uint64 // size 0
	Cut            uint64 // pieces whose connection ended or stalled within
	CutHeaders     uint64 // connections that ended within a header
}

// Server writes what peers send into a [transfer.Memory].
type Server struct {
	mem *transfer.Memory
	cfg ServerConfig
	wg  sync.WaitGroup

	mu        sync.Mutex
	closed    bool
	listeners []net.Listener
	conns     map[net.Conn]struct{}

	connsRefused, writes, reads, written, read   atomic.Uint64
	badAddress, badOpcode, empty, cut, cutHeader atomic.Uint64
}

// NewServer returns a server that listens nowhere yet.
func NewServer(mem *transfer.Memory, cfg ServerConfig) *Server {
	if cfg.MaxConns <= 0 {
		cfg.MaxConns = DefaultMaxConns
	}
	if cfg.IdleTimeout <= 0 {
		cfg.IdleTimeout = DefaultIdleTimeout
	}
	if cfg.StallTimeout <= 0 {
		cfg.StallTimeout = DefaultStallTimeout
	}
	return &Server{mem: mem, cfg: cfg, conns: make(map[net.Conn]struct{})}
}

// Listen accepts peers at a TCP address and returns it with the port that the
// system chose where it was 0.
func (s *Server) Listen(ctx context.Context, address string) (string, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", address)
	if err != nil {
		return "", fmt.Errorf("listen for transfers: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		_ = l.Close()
		return "", fmt.Errorf("listen for transfers: %w", ErrClosed)
	}
	s.listeners = append(s.listeners, l)
	s.wg.Add(1)
	go s.accept(l)
	return l.Addr().String(), nil
}

func (s *Server) accept(l net.Listener) {
	defer s.wg.Done()
	for {
		conn, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			// Out of descriptors, most likely: they come back.
			time.Sleep(acceptPause)
			continue
		}
		if !s.admit(conn) {
			_ = conn.Close()
			continue
		}
		go s.serve(conn)
	}
}

func (s *Server) admit(conn net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || len(s.conns) >= s.cfg.MaxConns {
		s.connsRefused.Add(1)
		return false
	}
	s.conns[conn] = struct{}{}
	s.wg.Add(1)
	return true
}

// serve takes one piece after the other. The connection is closed here and
// nowhere else, after the last copy into memory: a client takes the close for
// the proof that nothing more will be written.
func (s *Server) serve(conn net.Conn) {
	defer s.wg.Done()
	defer func() {
		s.mu.Lock()
		delete(s.conns, conn)
		s.mu.Unlock()
		_ = conn.Close()
	}()
	c := &serverConn{Server: s, conn: conn, buf: make([]byte, chunkBytes)}
	for c.piece() == nil {
	}
}

// Close stops listening, ends every connection after the piece of memory that
// it is writing, and waits for that.
func (s *Server) Close() error {
	s.mu.Lock()
	s.closed = true
	var errs []error
	for _, l := range s.listeners {
		errs = append(errs, l.Close())
	}
	s.listeners = nil
	for c := range s.conns {
		// Not a close: see serve.
		_ = c.SetDeadline(time.Unix(1, 0))
	}
	s.mu.Unlock()
	s.wg.Wait()
	return errors.Join(errs...)
}

// Stats returns the server's counters.
func (s *Server) Stats() ServerStats {
	s.mu.Lock()
	conns := len(s.conns)
	s.mu.Unlock()
	return ServerStats{
		Conns: conns, ConnsRefused: s.connsRefused.Load(),
		Writes: s.writes.Load(), Reads: s.reads.Load(),
		BytesWritten: s.written.Load(), BytesRead: s.read.Load(),
		RefusedAddress: s.badAddress.Load(), RefusedOpcode: s.badOpcode.Load(), RefusedEmpty: s.empty.Load(),
		Cut: s.cut.Load(), CutHeaders: s.cutHeader.Load(),
	}
}

type serverConn struct {
	*Server
	conn net.Conn
	buf  []byte
}

// allow gives the peer d for what comes next, unless the server is closing.
func (c *serverConn) allow(d time.Duration) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return ErrClosed
	}
	return c.conn.SetDeadline(time.Now().Add(d))
}

// piece serves one header; any error ends the connection.
func (c *serverConn) piece() error {
	h, err := c.header()
	if err != nil {
		return err
	}
	if err := c.judge(h); err != nil {
		if h.Acknowledged {
			_ = c.status(statusRefused)
		}
		return err
	}
	if h.Opcode == Write {
		return c.takeBody(h)
	}
	return c.sendBody(h)
}

func (c *serverConn) header() (Header, error) {
	var b [HeaderBytes]byte
	if err := c.allow(c.cfg.IdleTimeout); err != nil {
		return Header{}, err
	}
	if _, err := io.ReadFull(c.conn, b[:1]); err != nil {
		return Header{}, err
	}
	err := c.allow(c.cfg.StallTimeout)
	if err == nil {
		_, err = io.ReadFull(c.conn, b[1:])
	}
	if err != nil {
		c.cutHeader.Add(1)
		return Header{}, err
	}
	h, err := ParseHeader(&b)
	if err != nil {
		c.badOpcode.Add(1)
	}
	return h, err
}

func (c *serverConn) judge(h Header) error {
	if h.Size == 0 {
		c.empty.Add(1)
		return fmt.Errorf("serve piece of 0 bytes: %w", transfer.ErrOutside)
	}
	err := c.mem.Check(h.Address, h.Size)
	if err != nil {
		c.badAddress.Add(1)
	}
	return err
}

func (c *serverConn) takeBody(h Header) error {
	for done := uint64(0); done < h.Size; {
		part := c.buf[:min(h.Size-done, chunkBytes)]
		if err := c.allow(c.cfg.StallTimeout); err != nil {
			c.cut.Add(1)
			return err
		}
		// What has arrived is written even if no more comes: so does Mooncake,
		// and so does RDMA.
		n, err := io.ReadFull(c.conn, part)
		if n > 0 {
			if perr := c.mem.Put(h.Address+done, part[:n]); perr != nil {
				c.badAddress.Add(1)
				return perr
			}
			c.written.Add(uint64(n))
			done += uint64(n)
		}
		if err != nil {
			c.cut.Add(1)
			return err
		}
	}
	c.writes.Add(1)
	if c.cfg.Applied != nil {
		c.cfg.Applied(h.Address, h.Size)
	}
	if h.Acknowledged {
		return c.status(statusOK)
	}
	return nil
}

func (c *serverConn) sendBody(h Header) error {
	if h.Acknowledged {
		if err := c.status(statusOK); err != nil {
			c.cut.Add(1)
			return err
		}
	}
	for done := uint64(0); done < h.Size; {
		part := c.buf[:min(h.Size-done, chunkBytes)]
		if err := c.mem.Get(h.Address+done, part); err != nil {
			c.badAddress.Add(1)
			return err
		}
		err := c.allow(c.cfg.StallTimeout)
		if err == nil {
			_, err = c.conn.Write(part)
		}
		if err != nil {
			c.cut.Add(1)
			return err
		}
		c.read.Add(uint64(len(part)))
		done += uint64(len(part))
	}
	c.reads.Add(1)
	return nil
}

func (c *serverConn) status(frame uint64) error {
	if err := c.allow(c.cfg.StallTimeout); err != nil {
		return err
	}
	var b [statusBytes]byte
	binary.LittleEndian.PutUint64(b[:], frame)
	_, err := c.conn.Write(b[:])
	return err
}
