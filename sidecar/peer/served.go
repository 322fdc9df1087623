package peer

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/engine/lifecycle/subscribe"
)

const (
	// markBusy and markIdle are how often a server says how far it has come: others
	// wait for that before they judge.
	markBusy = 5 * time.Millisecond
	markIdle = 50 * time.Millisecond
	// maxSkipped is how many marks in a row are left out because something was not
	// read yet.
	maxSkipped = 10
	// idleAfter is how long nothing was sent before marks become rare.
	idleAfter = time.Second
	// idlePeer is how long one who dialled may say nothing: it asks for the time each
	// second.
	idlePeer = 30 * time.Second
	// maxBegun is how many streams one connection may ask for in all: each costs its
	// engine a snapshot.
	maxBegun = 4 * MaxInstances
	// maxAsked is how many frames one who dialled may send in a second.
	maxAsked = 200
)

var (
	errFlood = errors.New("it sends more than anybody needs to")
	errSlow  = errors.New("it does not take facts as fast as they come")
	errToken = errors.New("it has not the token")
)

// served is one peer that dialled.
type served struct {
	s    *Server
	conn net.Conn
	in   *frames
	out  *outbox
	node string

	mu     sync.Mutex
	theirs []string // instances that it calls its own
	relays map[string]*relay
	begun  int // relays, in all
	slow   bool
	busyAt int64 // when a fact was sent last
}

// relay is the stream of one own instance to one peer.
type relay struct {
	stop  func()
	done  chan struct{}
	sub   *subscribe.Subscriber
	state subscribe.State // as it was told
	// blocked: a fact is being put into the outbox, and may have to wait for room.
	blocked atomic.Bool
}

// greet has the peer show who it is.
func (s *Server) greet(conn net.Conn) (*served, Turned, error) {
	p := &served{s: s, conn: conn, in: &frames{in: bufio.NewReader(conn)}, out: newOutbox(s.cfg.Now), relays: map[string]*relay{}}
	if err := conn.SetDeadline(time.Now().Add(greetTimeout)); err != nil {
		return nil, BadGreeting, err
	}
	nonce := newNonce()
	hello := appendFrame(nil, kindHello, 0, s.cfg.Now(), asJSON(greeting{Version: Version, Node: s.cfg.Node, Nonce: nonce}))
	p.out.number++
	if _, err := conn.Write(hello); err != nil {
		return nil, ofHandshake(err), fmt.Errorf("greet: %w", err)
	}
	f, err := p.in.Next()
	if err != nil {
		return nil, ofHandshake(err), fmt.Errorf("read its greeting: %w", err)
	}
	g, err := parse[greeting](f, kindHello)
	if err == nil {
		err = g.check()
	}
	if err != nil {
		return nil, BadGreeting, err
	}
	var w welcome
	if s.cfg.Secret.Certificates == nil {
		if !proves(g.Proof, s.cfg.Secret.Token, roleDials, nonce, g.Nonce) {
			return nil, BadToken, errToken
		}
		w.Proof = proofOf(s.cfg.Secret.Token, roleServes, g.Nonce, nonce)
	}
	p.node = g.Node
	p.out.put(kindWelcome, asJSON(w))
	return p, 0, conn.SetDeadline(time.Time{})
}

// ofHandshake is why a connection failed at its first words: a certificate that is
// refused shows only then.
func ofHandshake(err error) Turned {
	if ofCertificates(err) {
		return BadCertificate
	}
	return BadGreeting
}

// run serves the peer until it leaves or is turned away.
func (p *served) run(ctx context.Context, cancel func()) (Turned, error) {
	s := p.s
	s.mu.Lock()
	s.conns[p] = struct{}{}
	s.mu.Unlock()
	p.tellOwn()
	var all sync.WaitGroup
	all.Go(func() {
		defer cancel()
		defer p.out.close() // nobody waits for one who is gone
		_ = p.out.sendTo(p.conn)
	})
	all.Go(func() { p.mark(ctx) })
	why, err := p.listen(ctx)
	s.mu.Lock()
	delete(s.conns, p)
	s.mu.Unlock()
	cancel()
	p.out.close()
	p.follow(ctx, nil)
	all.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.slow {
		return TooSlow, errSlow
	}
	return why, err
}

// listen takes what the peer says.
func (p *served) listen(ctx context.Context) (Turned, error) {
	second, asked := time.Now(), 0
	for {
		if err := p.conn.SetReadDeadline(time.Now().Add(idlePeer)); err != nil {
			return Left, err
		}
		f, err := p.in.Next()
		heard := p.s.cfg.Now()
		if errors.Is(err, ErrFrame) {
			return BadGreeting, err
		}
		if err != nil {
			return Left, err
		}
		if time.Since(second) > time.Second {
			second, asked = time.Now(), 0
		}
		if asked++; asked > maxAsked {
			return Flooding, errFlood
		}
		if err := p.take(ctx, f, heard); errors.Is(err, errFlood) {
			return Flooding, err
		} else if err != nil {
			return BadGreeting, err
		}
	}
}

func (p *served) take(ctx context.Context, f frame, heard int64) error {
	switch f.kind {
	case kindPing:
		times, err := parseTimes(f, kindPing, 1)
		if err != nil {
			return err
		}
		p.out.put(kindPong, asTimes(times[0], heard))
	case kindInstances:
		theirs, err := parseList(f, kindInstances)
		if err != nil {
			return err
		}
		p.meet(theirs)
	case kindFollow:
		wanted, err := parseList(f, kindFollow)
		if err != nil {
			return err
		}
		if p.begun > maxBegun {
			return errFlood
		}
		p.follow(ctx, wanted)
	default:
		return fmt.Errorf("%w: a frame of kind %d from one who dials", ErrFrame, f.kind)
	}
	return nil
}

// meet notes what the peer calls its own, and says what is seen of it.
func (p *served) meet(theirs []string) {
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	p.mu.Lock()
	before := p.theirs
	p.theirs = theirs
	p.mu.Unlock()
	for _, f := range p.s.sights {
		if !slices.Contains(before, f.Inst) {
			now := *f
			now.T = p.s.cfg.Now() // from now on: it is handed what is seen
			p.show(&now)
		}
	}
}

// show hands on what the probe saw, if it is of the peer's memory and of what this
// node's own engines write there. It waits for nobody: what there is no room for ends
// the connection.
func (p *served) show(f *lifecycle.Fact) {
	p.mu.Lock()
	defer p.mu.Unlock()
	from := f.From
	if f.Ev == lifecycle.SourceCoverage {
		from = f.Peer
	}
	if !slices.Contains(p.theirs, f.Inst) || from != "" && !p.s.isOwn(from) {
		return
	}
	if !p.out.put(kindFact, f.AppendMsgpack) {
		p.slow = true
		p.out.close()
		_ = p.conn.Close()
		return
	}
	p.sent()
}

// sent counts a fact. p.mu is held.
func (p *served) sent() {
	p.s.sent.Add(1)
	p.busyAt = p.s.cfg.Now()
}

// tellOwn says which instances are this node's, and lets go of those that are not.
func (p *served) tellOwn() {
	own := p.s.cfg.Own()
	p.out.put(kindInstances, asJSON(own[:min(len(own), MaxInstances)]))
	p.mu.Lock()
	defer p.mu.Unlock()
	for inst, r := range p.relays {
		if !slices.Contains(own, inst) {
			r.stop()
			delete(p.relays, inst)
		}
	}
}

// follow makes the streams that are handed on those that are wanted.
func (p *served) follow(ctx context.Context, wanted []string) {
	p.mu.Lock()
	var gone []*relay
	for inst, r := range p.relays {
		if !slices.Contains(wanted, inst) {
			gone = append(gone, r)
			delete(p.relays, inst)
		}
	}
	for _, inst := range wanted {
		if p.relays[inst] == nil && p.s.isOwn(inst) && ctx.Err() == nil {
			p.begin(ctx, inst)
		}
	}
	p.mu.Unlock()
	for _, r := range gone {
		r.stop()
		<-r.done
	}
}

// begin subscribes for the peer. p.mu is held.
func (p *served) begin(ctx context.Context, inst string) {
	cfg, there := p.s.cfg.Stream(inst)
	if !there {
		return
	}
	sub, err := subscribe.New(cfg)
	if err != nil {
		p.s.cfg.Log.Warn("an engine's stream cannot be handed on", "instance", inst, "error", err)
		return
	}
	p.begun++
	ctx, stop := context.WithCancel(ctx)
	r := &relay{stop: stop, done: make(chan struct{}), sub: sub}
	p.relays[inst] = r
	go func() {
		defer close(r.done)
		_ = sub.Run(ctx, func(f *lifecycle.Fact) { // it ends with ctx
			r.blocked.Store(true)
			handed := p.out.wait(kindFact, f.AppendMsgpack)
			r.blocked.Store(false)
			if handed {
				p.mu.Lock()
				p.sent()
				p.mu.Unlock()
			}
		})
		p.s.missed.Add(r.missed())
	}()
}

// missed is how many facts a subscription missed at the engine.
func (r *relay) missed() uint64 {
	lost := r.sub.Stats().Lost
	return lost[subscribe.GapNotKept] + lost[subscribe.EngineQueue]
}

// missed is how many those that run have missed.
func (p *served) missed() (n uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range p.relays {
		n += r.missed()
	}
	return n
}

// mark says again and again how far all streams are, and the probe.
func (p *served) mark(ctx context.Context) {
	pause := time.NewTimer(markBusy)
	defer pause.Stop()
	skipped := 0
	for {
		select {
		case <-ctx.Done():
			return
		case <-pause.C:
		}
		next, behind := p.stand()
		if skipped++; behind == upToDate || behind == unread && skipped > maxSkipped {
			skipped = 0
			p.out.put(kindMark, asTimes(p.s.reached.Load()))
		}
		pause.Reset(next)
	}
}

// behindBy is why what an engine said is not known until now.
type behindBy uint8

const (
	upToDate behindBy = iota
	unread            // something of it is in the socket, as it is now and then
	blocked           // there is no room for it in the outbox
)

// stand tells which streams stand otherwise than before, and says when to look again,
// and whether what an engine said is not known until now.
func (p *served) stand() (next time.Duration, behind behindBy) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for inst, r := range p.relays {
		st := r.sub.Stats()
		switch {
		case r.blocked.Load():
			behind = blocked
		case st.Socket.ReceiveBytes > 0:
			behind = max(behind, unread)
		}
		if st.State != r.state { // at first: waiting, as all do that have not begun
			r.state = st.State
			p.out.put(kindStanding, asJSON(standing{inst, st.State.String()}))
		}
	}
	if p.s.cfg.Now()-p.busyAt > idleAfter.Nanoseconds() {
		return markIdle, behind
	}
	return markBusy, behind
}
