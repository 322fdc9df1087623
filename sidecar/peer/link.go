package peer

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/sidecar/intake"
)

const (
	// DefaultRetry is how soon a peer is dialled again; it doubles up to retryGrowth
	// times that, and begins anew after a connection that held for steady.
	DefaultRetry = 200 * time.Millisecond
	retryGrowth  = 25
	steady       = 10 * time.Second
)

// LinkConfig says whom to dial, and what for.
type LinkConfig struct {
	Name    string // in metrics and the log
	Address string // HOST:PORT
	Node    string // this one
	Secret  Secret
	Now     func() int64 // ns, this node's clock
	In      *intake.Intake
	// Patience is how old what a peer says may be before the peer is out of sight.
	Patience time.Duration
	// Retry is how soon the peer is dialled again at first. Default DefaultRetry.
	Retry time.Duration
	// Pages bounds the pools of one instance of the peer.
	Pages int
	// Own are the instances of this node's engines.
	Own func() []string
	// Meet is asked whether the peer may be the node of that name: each has its clock.
	Meet func(node string) bool
	// Claim is asked whether an instance may be the peer's; once it is, it stays so.
	Claim func(instance string) bool
	// Sees reports whether this node itself says how its sight of a path is: what a
	// peer says of it is then not asked for.
	Sees func(of lifecycle.Src, into, from string) bool
	Log  *slog.Logger
}

// Link takes in what one peer hands on. It is used once.
type Link struct {
	cfg   LinkConfig
	seen  *intake.Source // what the peer's probe saw, and statements about the link
	live  atomic.Bool    // the peer has a probe that sees
	met   atomic.Bool    // the peer has said which instances are its own
	count counters
	epoch atomic.Uint64

	changed chan struct{} // the own instances are others than before

	mu      sync.Mutex
	status  Status
	remotes map[string]*remote
}

// NewLink returns a Link that is connected to nothing yet.
func NewLink(cfg LinkConfig) (*Link, error) {
	if err := cfg.Secret.Allowed(cfg.Address); err != nil {
		return nil, err
	}
	if cfg.Retry <= 0 {
		cfg.Retry = DefaultRetry
	}
	l := &Link{cfg: cfg, status: Status{Name: cfg.Name}, remotes: map[string]*remote{}, changed: make(chan struct{}, 1)}
	l.seen = cfg.In.OpenRemote("", queueBytes, func() intake.Standing {
		if l.live.Load() {
			return intake.Live
		}
		return intake.Away
	})
	return l, nil
}

// Changed tells that there are other own instances than before.
func (l *Link) Changed() {
	select {
	case l.changed <- struct{}{}:
	default:
	}
}

// Run keeps a connection until ctx ends.
func (l *Link) Run(ctx context.Context) {
	pause := l.cfg.Retry
	for {
		begun := time.Now()
		end, err := l.connect(ctx)
		if ctx.Err() != nil {
			return
		}
		if time.Since(begun) > steady {
			pause = l.cfg.Retry
		}
		l.note(end, err, pause)
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		pause = min(2*pause, retryGrowth*l.cfg.Retry)
	}
}

// note counts an end; a problem is logged when it is another than before.
func (l *Link) note(end End, err error, pause time.Duration) {
	l.count.ends[end].Add(1)
	l.mu.Lock()
	defer l.mu.Unlock()
	if problem := fmt.Sprintf("%s: %v", end, err); problem != l.status.Problem {
		l.status.Problem = problem
		l.cfg.Log.Warn("a peer is out of sight", "peer", l.cfg.Name, "reason", end.String(), "error", err, "again_in", pause)
	}
}

// connect dials the peer and takes in what it says until one of them ends it.
func (l *Link) connect(ctx context.Context) (End, error) {
	conn, end, err := l.dial(ctx)
	if err != nil {
		return end, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	defer conn.Close()
	s, err := l.greet(conn)
	if err != nil {
		return ofGreeting(err), err
	}
	l.mu.Lock()
	l.status.Node = s.node
	l.mu.Unlock()
	return s.run(ctx, cancel)
}

func (l *Link) dial(ctx context.Context) (net.Conn, End, error) {
	d := net.Dialer{Timeout: greetTimeout}
	conn, err := d.DialContext(ctx, "tcp", l.cfg.Address)
	if err != nil || l.cfg.Secret.Certificates == nil {
		return conn, Unreachable, err
	}
	host, _, err := net.SplitHostPort(l.cfg.Address)
	if err != nil {
		return nil, Unreachable, errors.Join(err, conn.Close())
	}
	secure := tls.Client(conn, l.cfg.Secret.Certificates.Client(host))
	greet, done := context.WithTimeout(ctx, greetTimeout)
	defer done()
	if err := secure.HandshakeContext(greet); err != nil {
		_ = conn.Close()
		return nil, Refused, err
	}
	return secure, 0, nil
}

// errName is of a peer that has the name of this node, or of another peer.
var errName = fmt.Errorf("%w: it has the name of this node, or of another peer; name nodes apart with node", ErrFrame)

// greet shows who this node is, and has the peer show who it is.
func (l *Link) greet(conn net.Conn) (*session, error) {
	if err := conn.SetDeadline(time.Now().Add(greetTimeout)); err != nil {
		return nil, err
	}
	s := newSession(l, conn)
	f, err := s.in.Next()
	if err != nil {
		return nil, fmt.Errorf("read its greeting: %w", err)
	}
	theirs, err := parse[greeting](f, kindHello)
	if err == nil {
		err = theirs.check()
	}
	if err == nil && (theirs.Node == l.cfg.Node || !l.cfg.Meet(theirs.Node)) {
		err = errName
	}
	if err != nil {
		return nil, err
	}
	s.node = theirs.Node
	ours := greeting{Version: Version, Node: l.cfg.Node, Nonce: newNonce()}
	if l.cfg.Secret.Certificates == nil {
		ours.Proof = proofOf(l.cfg.Secret.Token, roleDials, theirs.Nonce, ours.Nonce)
	}
	if _, err := conn.Write(appendFrame(nil, kindHello, 0, l.cfg.Now(), asJSON(ours))); err != nil {
		return nil, fmt.Errorf("greet: %w", err)
	}
	s.out.number++
	if f, err = s.in.Next(); err != nil {
		return nil, fmt.Errorf("wait to be let in: %w", err)
	}
	w, err := parse[welcome](f, kindWelcome)
	if err != nil {
		return nil, err
	}
	if l.cfg.Secret.Certificates == nil && !proves(w.Proof, l.cfg.Secret.Token, roleServes, ours.Nonce, theirs.Nonce) {
		return nil, errToken
	}
	return s, conn.SetDeadline(time.Time{})
}

// ofGreeting is why the first words came to nothing: who is not let in hears only that
// it is over.
func ofGreeting(err error) End {
	switch {
	case errors.Is(err, errName), errors.Is(err, errVersion), errors.Is(err, errToken), errors.Is(err, io.EOF), ofCertificates(err):
		return Refused
	case errors.Is(err, ErrFrame):
		return Malformed
	case errors.Is(err, os.ErrDeadlineExceeded):
		return Silent
	}
	return Closed
}

// fresh is an epoch that no stream of the peer has had here.
func (l *Link) fresh() uint64 { return l.epoch.Add(1) }

// Met reports whether the peer was ever there and said which instances are its own.
func (l *Link) Met() bool { return l.met.Load() }

// Status returns how it stands.
func (l *Link) Status() Status {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.status
	s.Received, s.Taken, s.Twice, s.PassedOver = l.count.received.Load(), l.count.taken.Load(), l.count.twice.Load(), l.count.passed.Load()
	for e := range s.Lost {
		s.Lost[e], s.Ends[e] = l.count.lost[e].Load(), l.count.ends[e].Load()
	}
	s.Waiting = l.seen.Stats().Waiting
	for _, r := range l.remotes {
		s.Waiting += r.src.Stats().Waiting
	}
	return s
}

// Close gives up what the Link has in the intake, once Run has returned.
func (l *Link) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seen.Close()
	for _, r := range l.remotes {
		r.src.Close()
	}
}
