package control

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strconv"
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

// PrefillConfig of a prefill rank's end.
type PrefillConfig struct {
	// Host to listen at, and to be reached at. Ports of 0 are the system's to choose.
	Host          string
	Port          int // control
	BootstrapPort int
	// BootstrapAt is where another rank serves bootstrap; empty: here.
	BootstrapAt string
	// HTTPPort of the API, at which decode asks for the size of the pool.
	HTTPPort int
	// Transfer is how pages go to decode; nil: over TCP.
	Transfer transfer.Way
	Log      *slog.Logger
}

// Prefill takes registrations and targets, sends pages, and says how rooms end.
type Prefill struct {
	cfg     PrefillConfig
	address string
	pull    *zmtp.Pull
	web     *http.Server
	webAt   string
	routes  bootstrap
	worker  *worker.Worker
	sender  *handoff.Sender
	ctx     context.Context
	cancel  context.CancelFunc
	wg      sync.WaitGroup

	mu    sync.Mutex
	peers map[scheduler.Peer]*receiver
}

var _ worker.Link = (*Prefill)(nil)

// receiver is one life of a decode peer.
type receiver struct {
	peer    scheduler.Peer
	session string
	at      handoff.Addresses
	writer  transfer.Writer
	wire    *wire
	ended   chan struct{} // closed when PeerGone has been taken in

	mu     sync.Mutex
	prefix map[scheduler.Room]int // tokens present there
}

// BindPrefill opens the control socket and the bootstrap server.
func BindPrefill(ctx context.Context, cfg PrefillConfig) (*Prefill, error) {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Transfer == nil {
		cfg.Transfer = tcp.Way{}
	}
	p := &Prefill{cfg: cfg, pull: zmtp.NewPull(zmtp.Config{}), peers: map[scheduler.Peer]*receiver{}}
	p.ctx, p.cancel = context.WithCancel(context.WithoutCancel(ctx))
	var err error
	if p.address, err = listen(ctx, p.pull, cfg.Host, cfg.Port); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	if p.webAt = cfg.BootstrapAt; p.webAt != "" {
		return p, nil
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", net.JoinHostPort(cfg.Host, strconv.Itoa(cfg.BootstrapPort)))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("listen for bootstrap: %w", err), p.Close())
	}
	p.webAt = l.Addr().String()
	p.web = &http.Server{Handler: p.routes.handler(), ReadHeaderTimeout: bootstrapTimeout, ReadTimeout: bootstrapTimeout}
	p.wg.Go(func() { _ = p.web.Serve(l) })
	return p, nil
}

// Address of the control socket: the name of this instance among its peers.
func (p *Prefill) Address() string { return p.address }

// Bootstrap is the address of the bootstrap server.
func (p *Prefill) Bootstrap() string { return p.webAt }

// Start begins to serve peers for w; httpPort is where its API listens. It is for
// worker.Config.Link.
func (p *Prefill) Start(w *worker.Worker) worker.Link {
	c := w.Config()
	p.worker = w
	p.sender = &handoff.Sender{Memory: w.Memory(), Rank: c.Rank, Ranks: c.Ranks, Digest: true, Transposed: c.Transposed(), Sum: p.tellDigest}
	self, _ := splitAddress(p.address)
	p.announce(&pdwire.RouteRegistration{
		AttnTPSize: heads(w) / w.Layout().KVHeads, AttnCPSize: 1, AttnDPSize: 1, PPSize: c.Ranks, PPRank: c.Rank, SystemDPSize: 1,
		RankIP: self.Host, RankPort: int(self.Port), PageSize: c.PageTokens, KVCacheDtype: c.DType.String(), HTTPPort: p.cfg.HTTPPort,
	})
	p.wg.Go(p.receive)
	return p
}

// announce registers this rank, here or with the rank that serves bootstrap.
func (p *Prefill) announce(r *pdwire.RouteRegistration) {
	if p.cfg.BootstrapAt == "" {
		p.routes.add(r)
		return
	}
	p.wg.Go(func() {
		for p.ctx.Err() == nil {
			err := putRoute(p.ctx, p.cfg.BootstrapAt, r)
			if err == nil {
				return
			}
			p.cfg.Log.Debug("bootstrap not reached", "err", err.Error())
			sleep(p.ctx, retryPause)
		}
	})
}

func heads(w *worker.Worker) int { return w.Memory().Pages.Layout().KVHeads }

func (p *Prefill) receive() {
	for {
		frames, err := p.pull.Recv(p.ctx)
		if err != nil {
			return
		}
		m, err := pdwire.ParseBodies(frames)
		if err != nil {
			p.cfg.Log.Warn("control message refused", "err", err.Error())
			continue
		}
		switch m := m.(type) {
		case *pdwire.Registration:
			p.register(m)
		case *pdwire.TransferRequest:
			p.targets(m)
		case *pdwire.Abort:
			p.worker.Post(scheduler.PeerAborted{Room: scheduler.Room(m.Room), Peer: scheduler.Peer(joinAddress(m.Address)), Reason: "decode ended the request"})
		}
	}
}

// register takes a decode peer in. One that registers again has restarted, or lost
// its connection: what was named before is gone first.
func (p *Prefill) register(m *pdwire.Registration) {
	peer := scheduler.Peer(joinAddress(m.Address))
	if old := p.receiver(peer); old != nil {
		old.wire.lose()
		<-old.ended
	}
	wire, err := dial(string(peer))
	if err != nil {
		p.cfg.Log.Warn("peer refused", "peer", string(peer), "err", err.Error())
		return
	}
	r := &receiver{
		peer: peer, session: m.Session, at: addresses(m), writer: p.cfg.Transfer.Reach(m.Session),
		wire: wire, ended: make(chan struct{}), prefix: map[scheduler.Room]int{},
	}
	p.mu.Lock()
	full := len(p.peers) >= scheduler.MaxPeers
	if !full {
		p.peers[peer] = r
	}
	p.mu.Unlock()
	if full {
		_ = errors.Join(r.writer.Close(), wire.close())
		p.cfg.Log.Warn("peer refused", "peer", string(peer), "err", "too many peers")
		return
	}
	p.worker.Post(scheduler.PeerUp{Peer: peer, Layout: p.layoutOf(m)})
	p.wg.Go(func() { p.watch(r) })
}

// layoutOf is what a registration says of a page, and this side's own where it says
// nothing.
func (p *Prefill) layoutOf(m *pdwire.Registration) scheduler.Layout {
	l := p.worker.Layout()
	l.BytesPerToken = int(m.KVItemBytes) / l.PageTokens
	layers := map[uint32]bool{}
	for _, id := range m.KVLayerIDs {
		layers[id] = true
	}
	if len(layers) > 0 {
		l.Layers = len(layers)
	}
	l.KVHeads = heads(p.worker) / max(m.AttnTPSize, 1)
	return l
}

// watch ends a peer whose connection is lost: first everything of ours that could
// still write there, then the word to the scheduler.
func (p *Prefill) watch(r *receiver) {
	defer close(r.ended)
	select {
	case <-r.wire.gone:
	case <-p.ctx.Done():
	}
	_ = r.writer.Close()
	_ = r.wire.close()
	p.mu.Lock()
	delete(p.peers, r.peer)
	p.mu.Unlock()
	p.worker.Post(scheduler.PeerGone{Peer: r.peer})
	_ = p.worker.Inspect(p.ctx, func(worker.View) {}) // it has been taken in
}

// Connected is how many decode peers are registered.
func (p *Prefill) Connected() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.peers)
}

func (p *Prefill) receiver(peer scheduler.Peer) *receiver {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.peers[peer]
}

func (p *Prefill) targets(m *pdwire.TransferRequest) {
	r := p.receiver(scheduler.Peer(joinAddress(m.Address)))
	if r == nil || r.session != m.Session {
		p.cfg.Log.Warn("targets refused", "room", m.Room, "err", "of a peer or session that is not registered")
		return
	}
	t, err := targets(m, r.peer)
	if err != nil {
		p.cfg.Log.Warn("targets refused", "room", m.Room, "err", err.Error())
		r.wire.send(&pdwire.Status{Room: m.Room, Status: pdwire.StatusFailed, PrefillRank: p.sender.Rank, Reason: failureText(http.StatusBadRequest, err.Error())})
		return
	}
	r.mu.Lock()
	if len(r.prefix) < scheduler.MaxEndedRooms {
		r.prefix[t.Room] = t.PrefixTokens
	}
	r.mu.Unlock()
	p.worker.Post(t)
}

// Do implements worker.Link.
func (p *Prefill) Do(action scheduler.Action) {
	switch a := action.(type) {
	case scheduler.StartTransfer:
		p.wg.Go(func() { p.send(a) })
	case scheduler.TellStatus:
		p.tellStatus(a)
	case scheduler.TellDrained:
		if r := p.receiver(a.Peer); r != nil {
			r.wire.send(&pdwire.AbortAck{Room: int64(a.Room), PrefillRank: p.sender.Rank})
		}
	case scheduler.FencePeer:
		if r := p.receiver(a.Peer); r != nil {
			r.wire.lose()
		}
	case scheduler.RefusePeer:
		p.cfg.Log.Error("peer refused", "peer", string(a.Peer), "err", a.Err.Error())
	}
}

func (p *Prefill) tellStatus(a scheduler.TellStatus) {
	p.sender.Forget(a.Room, a.Peer)
	r := p.receiver(a.Peer)
	if r == nil {
		return // PeerGone has been said, or is on its way
	}
	r.mu.Lock()
	delete(r.prefix, a.Room)
	r.mu.Unlock()
	m := &pdwire.Status{Room: int64(a.Room), Status: pdwire.StatusFailed, PrefillRank: p.sender.Rank}
	switch {
	case !a.OK:
		m.Reason = failureText(a.Status, a.Reason)
	case a.HasLength:
		m.Status, m.Reason = pdwire.StatusSuccess, lengthText(a.Pages, a.Tokens)
	default:
		m.Status = pdwire.StatusSuccess
	}
	r.wire.send(m)
}

// send carries a transfer out. Where it cannot be shown that nothing of it can
// still arrive, the peer is cut off instead of told.
func (p *Prefill) send(a scheduler.StartTransfer) {
	r := p.receiver(a.Peer)
	if r == nil {
		p.worker.Post(scheduler.Sent{Xfer: a.Xfer})
		return
	}
	r.mu.Lock()
	position := r.prefix[a.Room]/p.worker.Config().PageTokens + a.First
	r.mu.Unlock()
	fault, err := p.sender.Send(p.ctx, handoff.Job{StartTransfer: a, To: r.at, Writer: r.writer, Position: position})
	if errors.Is(err, transfer.ErrUndrained) {
		p.cfg.Log.Error("transfer is not drained: peer cut off", "peer", string(a.Peer), "room", uint64(a.Room))
		r.wire.lose()
		return
	}
	if err != nil {
		p.cfg.Log.Warn("transfer failed", "peer", string(a.Peer), "room", uint64(a.Room), "err", err.Error())
	}
	p.worker.Post(scheduler.Sent{Xfer: a.Xfer, OK: err == nil && fault == nil, Fault: fault})
}

// tellDigest is called before the transfer's end is posted, so that the fact comes
// first.
func (p *Prefill) tellDigest(room scheduler.Room, digest uint64) {
	p.worker.TellDigest(room, scheduler.Sender, digest)
}

// closeTimeout bounds what is left of bootstrap requests at the end.
const closeTimeout = time.Second

// Close ends every connection, once nothing of ours can still write.
func (p *Prefill) Close() error {
	p.cancel()
	var errs []error
	if p.web != nil {
		ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
		defer cancel()
		if p.web.Shutdown(ctx) != nil {
			// A connection on which nothing was asked yet holds Shutdown up for
			// seconds; nothing is owed to it.
			errs = append(errs, p.web.Close())
		}
	}
	errs = append(errs, p.pull.Close())
	p.wg.Wait()
	return errors.Join(errs...)
}
