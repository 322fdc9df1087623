package control

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/kvwitness/kvwitness/engine/handoff"
	"github.com/kvwitness/kvwitness/engine/pdwire"
	"github.com/kvwitness/kvwitness/engine/scheduler"
	"github.com/kvwitness/kvwitness/engine/transfer"
	"github.com/kvwitness/kvwitness/engine/transfer/tcp"
	"github.com/kvwitness/kvwitness/engine/worker"
	"github.com/kvwitness/kvwitness/engine/zmtp"
)

// ErrNotConnected is returned for a prefill that is not configured, or that no
// connection stands to.
var ErrNotConnected = errors.New("no connection to this prefill: name its bootstrap address with --prefill, and see whether it runs")

const (
	// retryPause is between two attempts to reach a prefill.
	retryPause = 200 * time.Millisecond
	// sweepPause is between two looks for pages that came unannounced: it is how
	// progress is noticed, within the transfer's time-out.
	sweepPause = 20 * time.Millisecond
)

// DecodeConfig of a decode instance's end.
type DecodeConfig struct {
	Host string
	Port int // control; 0: the system's to choose
	// Prefills are the bootstrap addresses, host:port, of those that may write here.
	Prefills []string
	// Transfer is how pages come from prefill, which must use the same; nil: over
	// TCP.
	Transfer transfer.Way
	Log      *slog.Logger
}

// Decode names pages to prefills, counts what they write, and hears how rooms end.
type Decode struct {
	cfg     DecodeConfig
	address string
	self    pdwire.Address
	pull    *zmtp.Pull
	worker  *worker.Worker
	ctx     context.Context
	cancel  context.CancelFunc
	wg      sync.WaitGroup

	mu       sync.Mutex
	sessions map[scheduler.Peer]*session
	ranks    map[string][]scheduler.Peer // by bootstrap address
	rooms    rooms
}

var _ worker.Link = (*Decode)(nil)

// session is one life of the connection to a prefill rank.
type session struct {
	peer     scheduler.Peer
	rank     int
	wire     *wire
	receiver transfer.Receiver // where this peer's bytes go
	arrivals *handoff.Arrivals
}

// BindDecode opens the control socket.
func BindDecode(ctx context.Context, cfg DecodeConfig) (*Decode, error) {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Transfer == nil {
		cfg.Transfer = tcp.Way{}
	}
	d := &Decode{
		cfg: cfg, pull: zmtp.NewPull(zmtp.Config{}), sessions: map[scheduler.Peer]*session{}, ranks: map[string][]scheduler.Peer{},
		rooms: rooms{by: map[scheduler.Room]*handedOver{}},
	}
	d.ctx, d.cancel = context.WithCancel(context.WithoutCancel(ctx))
	var err error
	if d.address, err = listen(ctx, d.pull, cfg.Host, cfg.Port); err == nil {
		d.self, err = splitAddress(d.address)
	}
	if err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// Address of the control socket: the name of this instance among its peers.
func (d *Decode) Address() string { return d.address }

// Start begins to work with the prefills, for worker.Config.Link.
func (d *Decode) Start(w *worker.Worker) worker.Link {
	d.worker = w
	d.wg.Go(d.receive)
	for _, bootstrap := range d.cfg.Prefills {
		d.wg.Go(func() { d.keep(bootstrap) })
	}
	return d
}

// Peers are the ranks of a prefill, which all write to each request.
func (d *Decode) Peers(bootstrap string) ([]scheduler.Peer, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	ranks := d.ranks[bootstrap]
	for _, r := range ranks {
		if d.sessions[r] == nil {
			return nil, fmt.Errorf("prefill at %s: %w", bootstrap, ErrNotConnected)
		}
	}
	if len(ranks) == 0 {
		return nil, fmt.Errorf("prefill at %s: %w", bootstrap, ErrNotConnected)
	}
	return ranks, nil
}

// Prefills are the bootstrap addresses of those prefills whose every rank is
// connected; the list is never nil.
func (d *Decode) Prefills() []string {
	up := []string{}
	for _, bootstrap := range d.cfg.Prefills {
		if _, err := d.Peers(bootstrap); err == nil {
			up = append(up, bootstrap)
		}
	}
	return up
}

// Connected is to how many prefill ranks a connection stands.
func (d *Decode) Connected() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.sessions)
}

// keep finds a prefill and keeps a session with each of its ranks.
func (d *Decode) keep(bootstrap string) {
	for d.ctx.Err() == nil {
		info, err := discover(d.ctx, bootstrap)
		if err == nil && info.server.PPSize != d.worker.Config().Ranks {
			err = fmt.Errorf("it has %d ranks, this engine expects %d: see --ranks", info.server.PPSize, d.worker.Config().Ranks)
		}
		if err != nil {
			d.cfg.Log.Debug("prefill not reached", "bootstrap", bootstrap, "err", err.Error())
			sleep(d.ctx, retryPause)
			continue
		}
		var ranks []scheduler.Peer
		for _, address := range info.ranks {
			ranks = append(ranks, scheduler.Peer(address))
		}
		d.mu.Lock()
		d.ranks[bootstrap] = ranks
		d.mu.Unlock()
		var wg sync.WaitGroup
		for rank := range ranks {
			wg.Go(func() { d.hold(info, rank) })
		}
		wg.Wait()
		sleep(d.ctx, retryPause)
	}
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// hold keeps one session for as long as its connection stands.
func (d *Decode) hold(info prefillInfo, rank int) {
	s, err := d.open(info.ranks[rank], rank)
	if err != nil {
		d.cfg.Log.Warn("prefill not reached", "peer", info.ranks[rank], "err", err.Error())
		return
	}
	select {
	case <-s.wire.ready:
		d.begin(s, info)
		d.cfg.Log.Info("prefill connected", "peer", string(s.peer))
		d.attend(s)
		d.part(s)
	case <-s.wire.gone:
		_ = errors.Join(s.wire.close(), s.receiver.Close())
	case <-d.ctx.Done():
		_ = errors.Join(s.wire.close(), s.receiver.Close())
	}
}

// attend waits until the connection is lost, and looks for what arrives where the
// transport does not say.
func (d *Decode) attend(s *session) {
	var look <-chan time.Time
	if !d.cfg.Transfer.Counts() {
		ticker := time.NewTicker(sweepPause)
		defer ticker.Stop()
		look = ticker.C
	}
	for {
		select {
		case <-look:
			s.arrivals.Sweep()
		case <-s.wire.gone:
			return
		case <-d.ctx.Done():
			return
		}
	}
}

// begin registers, tells the scheduler, and only then lets targets be named.
func (d *Decode) begin(s *session, info prefillInfo) {
	attnTPSize := heads(d.worker) / d.worker.Layout().KVHeads
	s.wire.send(registration(d.self, s.receiver.Session(), d.worker.Memory().Addresses(), attnTPSize))
	d.worker.Post(scheduler.PeerUp{Peer: s.peer, Capacity: info.capacity, Layout: d.layoutOf(info)})
	d.mu.Lock()
	defer d.mu.Unlock()
	d.sessions[s.peer] = s
}

func (d *Decode) open(address string, rank int) (*session, error) {
	s := &session{peer: scheduler.Peer(address), rank: rank}
	s.arrivals = handoff.NewArrivals(d.worker.Memory(), s.peer, rank, func(e scheduler.Arrived) { d.worker.Post(e) })
	var err error
	if s.receiver, err = d.cfg.Transfer.Serve(d.ctx, d.worker.Memory().Reach, d.cfg.Host, s.arrivals.Applied); err != nil {
		return nil, err
	}
	if s.wire, err = dial(address); err != nil {
		return nil, errors.Join(err, s.receiver.Close())
	}
	return s, nil
}

// part ends a session: its receiver is closed, so that nothing of the peer can still
// write; then the scheduler is told, and has taken it in, before the next session.
func (d *Decode) part(s *session) {
	_ = s.receiver.Close()
	_ = s.wire.close()
	d.mu.Lock()
	delete(d.sessions, s.peer)
	d.mu.Unlock()
	d.worker.Post(scheduler.PeerGone{Peer: s.peer})
	_ = d.worker.Inspect(d.ctx, func(worker.View) {})
	d.cfg.Log.Warn("prefill gone", "peer", string(s.peer))
}

// layoutOf is what bootstrap says of a prefill's pages, and this side's own where
// it says nothing.
func (d *Decode) layoutOf(info prefillInfo) scheduler.Layout {
	l := d.worker.Layout()
	l.PageTokens, l.DType = info.server.PageSize, info.server.KVCacheDtype
	l.KVHeads = heads(d.worker) / info.server.AttnTPSize
	return l
}

func (d *Decode) session(peer scheduler.Peer) *session {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.sessions[peer]
}

// Do implements worker.Link.
func (d *Decode) Do(action scheduler.Action) {
	switch a := action.(type) {
	case scheduler.SendTargets:
		d.sendTargets(a)
	case scheduler.TellAbort:
		if s := d.session(a.Peer); s != nil {
			s.wire.send(&pdwire.Abort{Room: int64(a.Room), Address: d.self})
		}
	case scheduler.CheckDigest:
		d.checkDigest(a)
	case scheduler.FencePeer:
		d.cfg.Log.Error("transfer does not drain: peer cut off", "peer", string(a.Peer))
		if s := d.session(a.Peer); s != nil {
			s.wire.lose()
		}
	case scheduler.Answer:
		d.forget(a)
	case scheduler.RefusePeer:
		d.cfg.Log.Error("peer refused", "peer", string(a.Peer), "err", a.Err.Error())
	}
}

func (d *Decode) sendTargets(a scheduler.SendTargets) {
	s := d.session(a.Peer)
	if s == nil {
		go func() {
			d.worker.Post(scheduler.Completed{Room: a.Room, Peer: a.Peer, Status: 502, Reason: ErrNotConnected.Error()})
			d.worker.Post(scheduler.Drained{Room: a.Room, Peer: a.Peer})
		}()
		return
	}
	d.mu.Lock()
	h := d.rooms.add(a)
	h.peers[s.rank] = a.Peer
	d.mu.Unlock()
	s.arrivals.Expect(a.Room, a.Pages, a.Gens, d.worker.PromptTokens(a.Req)-a.PrefixTokens)
	s.wire.send(request(d.self, s.receiver.Session(), a))
}

func (d *Decode) checkDigest(a scheduler.CheckDigest) {
	d.mu.Lock()
	h := d.rooms.by[a.Room]
	d.mu.Unlock()
	var c handoff.Checked
	if h != nil {
		var err error
		c, err = d.worker.Memory().Check(handoff.Owed{
			Pages: a.Pages, Gens: a.Gens, Position: h.prefix / d.worker.Config().PageTokens, Tokens: a.Tokens,
		}, h.slot)
		if err != nil {
			d.cfg.Log.Error("digest not compared: the handoff fails", "room", uint64(a.Room), "err", err.Error())
		}
	}
	go func() {
		if c.Ran {
			d.worker.TellDigest(a.Room, scheduler.Receiver, c.Sum)
		}
		d.worker.Post(scheduler.DigestChecked{Req: a.Req, Ran: c.Ran, Match: c.Match})
	}()
}

// forget drops what is only needed while a request is here. Whom its pages were
// named to is kept for longer: a writer may have yet to drain.
func (d *Decode) forget(a scheduler.Answer) {
	d.mu.Lock()
	room, sessions := d.rooms.byReq[a.Req], make([]*session, 0, len(d.sessions))
	delete(d.rooms.byReq, a.Req)
	for _, s := range d.sessions {
		sessions = append(sessions, s)
	}
	d.mu.Unlock()
	for _, s := range sessions {
		s.arrivals.Forget(room)
	}
}

// Close ends every connection.
func (d *Decode) Close() error {
	d.cancel()
	err := d.pull.Close()
	d.wg.Wait()
	return err
}
