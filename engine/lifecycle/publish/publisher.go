package publish

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/engine/lifecycle/stream"
	"github.com/kvwitness/kvwitness/engine/zmtp"
)

// Defaults of a [Config].
const (
	DefaultReplayBatches = 10_000
	DefaultReplayBytes   = 64 << 20
	DefaultMaxPeers      = 64
	// requestBytes bounds what a peer may ask.
	requestBytes = 64
	// answerBytes and answerMessages bound what waits for one peer of the ROUTER.
	answerBytes    = 2*stream.MaxBatchBytes + 1024
	answerMessages = 1000
)

// Config says how to publish. Zero fields mean their defaults.
type Config struct {
	Identity
	// Rank is the third element of each batch.
	Rank lifecycle.Opt[int64]
	// Dir is the folder of the sockets' files, made if it is not there. Default
	// stream.DefaultDir().
	Dir string
	// Endpoint of the PUB socket and ReplayEndpoint of the ROUTER, in ZeroMQ's
	// form. Default: IPC files in Dir, which only processes of this user and root
	// may connect to. TCP asks nobody who he is, and so needs AllowTCP.
	Endpoint, ReplayEndpoint string
	AllowTCP                 bool
	// ReplayBatches and ReplayBytes bound what is kept for replay.
	ReplayBatches, ReplayBytes int
	// MaxPeers bounds the subscribers, and the peers of the ROUTER.
	MaxPeers int
	// Socket bounds the sockets beyond that; see zmtp.Config. CheckPeer in it
	// judges the process that connects, by default by its user.
	Socket zmtp.Config
	// Record, if set, also writes a trace. A disk that stalls then delays the
	// stream, and what does not fit into the queue meanwhile is lost.
	Record *RecordConfig
}

// Publisher publishes what an engine does, and answers who missed some of it.
type Publisher struct {
	*Teller
	wire   *wire
	pub    *zmtp.Pub
	loop   *loop
	server *server
	file   *recording // nil: none
	served chan struct{}

	events, replay string
	once           sync.Once
	closed         chan struct{}
	closeErr       error
}

// New binds the sockets and begins to publish.
func New(ctx context.Context, cfg Config) (*Publisher, error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	p := &Publisher{Teller: newTeller(cfg.Identity), pub: zmtp.NewPub(cfg.socket(0)), served: make(chan struct{}), closed: make(chan struct{})}
	router := zmtp.NewRouter(cfg.socket(requestBytes))
	p.wire = &wire{rank: cfg.Rank, topic: stream.Topic(cfg.Instance), pub: p.pub, kept: newKept(cfg.ReplayBatches, cfg.ReplayBytes)}
	p.server = newServer(router, p.wire.kept, p.takeSnapshot)
	err := p.bind(ctx, &cfg)
	outputs := []output{p.wire}
	if err == nil && cfg.Record != nil {
		if p.file, err = openRecording(*cfg.Record); err == nil {
			outputs = append(outputs, p.file)
		}
	}
	if err != nil {
		return nil, errors.Join(err, p.pub.Close(), router.Close())
	}
	p.loop = newLoop(p.q, newEncoder(cfg.Identity, outputs...), p.flush, p.heartbeat)
	go p.loop.run()
	go func() {
		defer close(p.served)
		p.server.run()
	}()
	return p, nil
}

func (c *Config) complete() error {
	if err := c.Identity.complete(); err != nil {
		return err
	}
	if c.Dir == "" {
		c.Dir = stream.DefaultDir()
	}
	if c.Endpoint == "" || c.ReplayEndpoint == "" {
		events, replay, err := stream.Endpoints(c.Dir, c.Instance)
		if err != nil {
			return err
		}
		if err := os.MkdirAll(c.Dir, 0o700); err != nil {
			return fmt.Errorf("make the folder of the lifecycle sockets: %w", err)
		}
		c.Endpoint, c.ReplayEndpoint = or(c.Endpoint, events), or(c.ReplayEndpoint, replay)
	}
	for _, at := range []string{c.Endpoint, c.ReplayEndpoint} {
		if !c.AllowTCP && !strings.HasPrefix(at, "ipc://") {
			return fmt.Errorf("%w: endpoint %s is not IPC: allow TCP, which asks nobody who he is, or choose another", ErrConfig, at)
		}
	}
	if c.ReplayBatches <= 0 {
		c.ReplayBatches = DefaultReplayBatches
	}
	if c.ReplayBytes <= 0 {
		c.ReplayBytes = DefaultReplayBytes
	}
	if c.MaxPeers <= 0 {
		c.MaxPeers = DefaultMaxPeers
	}
	return nil
}

// socket is the configuration of one of the sockets; requests is how much a peer
// of the ROUTER may ask, 0 for the PUB socket.
func (c *Config) socket(requests int) zmtp.Config {
	s := c.Socket
	s.MaxPeers = c.MaxPeers
	if requests > 0 {
		s.Limits = zmtp.Limits{FrameBytes: requests, MessageBytes: requests, Frames: 4}
		s.SendBytes, s.SendMessages = answerBytes, answerMessages
		s.ReceiveMessages, s.ReceiveBytes = 2*c.MaxPeers, 2*c.MaxPeers*requests
	}
	return s
}

func or(value, otherwise string) string {
	if value != "" {
		return value
	}
	return otherwise
}

func (p *Publisher) bind(ctx context.Context, cfg *Config) (err error) {
	if p.events, err = p.pub.Bind(ctx, cfg.Endpoint); err != nil {
		return fmt.Errorf("publish lifecycle events: %w", err)
	}
	if p.replay, err = p.server.router.Bind(ctx, cfg.ReplayEndpoint); err != nil {
		return fmt.Errorf("serve replay of lifecycle events: %w", err)
	}
	return nil
}

// Endpoints are where the stream and the ROUTER are bound.
func (p *Publisher) Endpoints() (events, replay string) { return p.events, p.replay }

func (p *Publisher) flush() {
	p.wire.flush()
	if p.file != nil {
		p.file.flush()
	}
}

func (p *Publisher) heartbeat() { p.loop.e.watermark(p.loop.asOf, p.wire) }

// takeSnapshot copies the books between two batches.
func (p *Publisher) takeSnapshot(s *snapshot) bool {
	return p.loop.ask(func() {
		if p.wire.next == 0 { // so that there is a batch to name
			p.heartbeat()
			p.wire.flush()
		}
		p.loop.e.take(s, p.wire.next-1, p.loop.asOf)
	}, p.server.ctx.Done())
}

// Close tells what is queued, sends it for at most the sockets' linger, and ends
// everything. It returns earlier if ctx ends, and then goes on in the background.
// Events that come later are counted as lost.
func (p *Publisher) Close(ctx context.Context) error {
	go p.once.Do(func() {
		defer close(p.closed)
		p.q.close()
		<-p.loop.ended
		p.server.close()
		p.closeErr = errors.Join(p.pub.Close(), p.server.router.Close())
		<-p.served
		if p.file != nil {
			p.closeErr = errors.Join(p.closeErr, p.file.close())
		}
	})
	select {
	case <-p.closed:
		return p.closeErr
	case <-ctx.Done():
		return fmt.Errorf("close the lifecycle stream: %w", ctx.Err())
	}
}
