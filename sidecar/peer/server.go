package peer

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/engine/lifecycle/subscribe"
	"github.com/kvwitness/kvwitness/sidecar/credentials"
)

const (
	// MaxConnections is how many peers a Server serves at a time.
	MaxConnections = 64
	// greetTimeout is how long a peer may take to show who it is.
	greetTimeout = 5 * time.Second
	// logPause is how rarely the same reason to turn somebody away is logged.
	logPause = time.Second
	// minToken is the shortest token that is taken, in bytes.
	minToken = 16
)

var (
	// ErrOpen is returned for an address beyond loopback without certificates.
	ErrOpen = errors.New("beyond loopback peers need certificates: name peer_cert_file, peer_key_file and peer_ca_file")
	// ErrToken is returned where on loopback there is no token, or a short one.
	ErrToken = fmt.Errorf("without certificates peers on loopback need a token of at least %d bytes: name peer_token_file", minToken)

	errVersion = fmt.Errorf("%w: another version of the protocol", ErrFrame)
)

// Secret is what peers know each other by: certificates, or on loopback a token.
type Secret struct {
	Certificates *credentials.Credentials
	Token        string
}

// Allowed refuses an address, HOST:PORT, that peers could not be sure of each other at.
func (s Secret) Allowed(address string) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("peer at %s: %w", address, err)
	}
	if s.Certificates != nil {
		return nil
	}
	ip, err := netip.ParseAddr(host)
	if host != "localhost" && (err != nil || !ip.IsLoopback()) {
		return fmt.Errorf("peer at %s: %w", address, ErrOpen)
	}
	if len(s.Token) < minToken {
		return fmt.Errorf("peer at %s: %w", address, ErrToken)
	}
	return nil
}

// ServerConfig says what is served.
type ServerConfig struct {
	Node    string
	Address string // HOST:PORT
	Secret  Secret
	Now     func() int64 // ns, the node's clock
	// Own are the instances of this node's engines.
	Own func() []string
	// Stream says how the stream of one of them is subscribed to; false: it is not
	// there any more.
	Stream func(instance string) (subscribe.Config, bool)
	Log    *slog.Logger
}

// Server hands on what this node knows to peers that dial it.
type Server struct {
	cfg      ServerConfig
	listener net.Listener
	ctx      context.Context
	stop     func()
	all      sync.WaitGroup

	reached      atomic.Int64 // how far the probe has come, ns; 0: there is none
	sent, missed atomic.Uint64
	turned       [NumTurned]atomic.Uint64

	mu     sync.Mutex
	conns  map[*served]struct{}
	open   int // connections, those that have not shown who they are too
	sights sights
	logged [NumTurned]time.Time
}

// Listen serves until it is closed.
func Listen(ctx context.Context, cfg ServerConfig) (*Server, error) {
	if err := cfg.Secret.Allowed(cfg.Address); err != nil {
		return nil, err
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", cfg.Address)
	if err != nil {
		return nil, fmt.Errorf("listen for peers: %w", err)
	}
	s := &Server{cfg: cfg, listener: l, conns: map[*served]struct{}{}, sights: sights{}}
	s.ctx, s.stop = context.WithCancel(context.WithoutCancel(ctx))
	s.all.Go(s.accept)
	return s, nil
}

// Addr is where it listens.
func (s *Server) Addr() net.Addr { return s.listener.Addr() }

// Close ends all connections.
func (s *Server) Close() error {
	s.stop()
	err := s.listener.Close()
	s.all.Wait()
	return err
}

func (s *Server) accept() {
	for {
		conn, err := s.listener.Accept()
		if err != nil {
			if s.ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
				return
			}
			time.Sleep(10 * time.Millisecond) // of descriptors there are none left
			continue
		}
		if !s.enter() {
			s.turned[TooMany].Add(1)
			_ = conn.Close()
			continue
		}
		s.all.Go(func() {
			defer s.leave()
			s.serve(conn)
		})
	}
}

func (s *Server) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open >= MaxConnections {
		return false
	}
	s.open++
	return true
}

func (s *Server) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open--
}

// serve takes one in who dialled, and serves it until it leaves or is turned away.
func (s *Server) serve(conn net.Conn) {
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	defer conn.Close()
	if c := s.cfg.Secret.Certificates; c != nil {
		secure := tls.Server(conn, c.Server())
		greet, done := context.WithTimeout(ctx, greetTimeout)
		err := secure.HandshakeContext(greet)
		done()
		if err != nil {
			s.turn(conn, BadCertificate, err)
			return
		}
		conn = secure
	}
	p, why, err := s.greet(conn)
	if err != nil {
		s.turn(conn, why, err)
		return
	}
	s.cfg.Log.Info("a peer is served", "node", p.node, "address", conn.RemoteAddr().String())
	why, err = p.run(ctx, cancel)
	if s.ctx.Err() == nil {
		s.turn(conn, why, err)
	}
}

// turn counts one who is turned away, and says so, at most each logPause for each
// reason: whoever can connect must not fill the log.
func (s *Server) turn(conn net.Conn, why Turned, err error) {
	s.turned[why].Add(1)
	s.mu.Lock()
	often := time.Since(s.logged[why]) < logPause
	if !often {
		s.logged[why] = time.Now()
	}
	s.mu.Unlock()
	if often {
		return
	}
	s.cfg.Log.Warn("a peer is not served any more", "address", conn.RemoteAddr().String(), "reason", why.String(), "error", err)
}

// Saw takes what the node's probe says; it is not waited for by anybody.
func (s *Server) Saw(f *lifecycle.Fact) {
	s.mu.Lock()
	defer s.mu.Unlock()
	facts := []*lifecycle.Fact{f}
	if f.Src == lifecycle.Sidecar {
		facts = s.sights.learn(f)
	} else if f.Ev != lifecycle.BytesMoved || !f.Src.Observes() {
		return
	}
	for p := range s.conns {
		for _, f := range facts {
			p.show(f)
		}
	}
}

// Reached tells that all that the probe saw before t, in ns, was told to Saw; 0: there
// is no probe.
func (s *Server) Reached(t int64) { s.reached.Store(t) }

// Changed tells that there are other own instances than before.
func (s *Server) Changed() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for p := range s.conns {
		p.tellOwn()
	}
}

// Served returns the counts so far.
func (s *Server) Served() Served {
	out := Served{Sent: s.sent.Load(), Missed: s.missed.Load()}
	for t := range out.Turned {
		out.Turned[t] = s.turned[t].Load()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	out.Connected = len(s.conns)
	for p := range s.conns {
		out.Missed += p.missed()
	}
	return out
}

// isOwn reports whether an instance is one of this node's engines.
func (s *Server) isOwn(inst string) bool { return slices.Contains(s.cfg.Own(), inst) }
