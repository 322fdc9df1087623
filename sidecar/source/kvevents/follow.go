package kvevents

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/engine/lifecycle/stream"
	"github.com/kvwitness/kvwitness/engine/zmtp"
	"github.com/kvwitness/kvwitness/sidecar/intake"
)

// Bounds of a follower.
const (
	// MaxRanks is how many data-parallel ranks of one engine are followed.
	MaxRanks       = 64
	socketBytes    = 32 << 20
	socketMessages = 10_000
	replayTimeout  = 5 * time.Second
)

// ErrEndpoint is returned for an endpoint that has no ports for several ranks.
var ErrEndpoint = errors.New("want tcp://HOST:PORT; rank n is at PORT+n")

// Config says whose events to follow.
type Config struct {
	Name, Node string // the instance that facts are about, and where it runs
	// Events and Replay are the endpoints of rank 0; Replay may be "": what was
	// missed is then gone.
	Events, Replay string
	Ranks          int          // 0: one
	Now            func() int64 // the node's clock in ns, that of the facts
}

// Stats are the counts of all ranks together.
type Stats struct {
	Counts
	Batches  uint64 // that came, live or replayed
	Twice    uint64
	BadBatch uint64 // could not be read
	Missed   uint64 // could not be had any more
	Gaps     uint64
	Replays  uint64
	Restarts uint64
	Up       int // ranks that are connected
}

// Follower follows the KV events of one engine. It is used once.
type Follower struct {
	ranks []*rank
}

// rank is one data-parallel rank.
type rank struct {
	cfg            Config
	events, replay string
	dec            *Decoder
	source         *intake.Source
	sub            *zmtp.Sub

	batches, twice, badBatch, missed, gaps, replays, restarts atomic.Uint64

	mu    sync.Mutex
	table *table
	seq   sequence
}

// New returns a Follower that is connected to nothing yet. Each rank's facts are about
// an instance of its own, NAME, NAME/dp1 and so on.
func New(cfg Config, in *intake.Intake) (*Follower, error) {
	f := &Follower{}
	cfg.Ranks = max(cfg.Ranks, 1)
	if cfg.Ranks > MaxRanks {
		return nil, fmt.Errorf("follow KV events of %d ranks, at most %d", cfg.Ranks, MaxRanks)
	}
	for n := range cfg.Ranks {
		r := &rank{cfg: cfg, dec: NewDecoder()}
		if n > 0 {
			r.cfg.Name = fmt.Sprintf("%s/dp%d", cfg.Name, n)
		}
		var err error
		if r.events, err = ofRank(cfg.Events, n); err != nil {
			return nil, err
		}
		if r.replay, err = ofRank(cfg.Replay, n); err != nil {
			return nil, err
		}
		r.sub = zmtp.NewSub(zmtp.Config{
			ReceiveBytes: socketBytes, ReceiveMessages: socketMessages,
			Limits: zmtp.Limits{FrameBytes: MaxBatch, MessageBytes: MaxBatch + 1024, Frames: 4},
		})
		r.source = in.Open(r.cfg.Name, func() intake.Standing { return intake.Away }) // holds nobody back
		f.ranks = append(f.ranks, r)
	}
	return f, nil
}

// ofRank is the endpoint of a rank: its port is that much higher.
func ofRank(endpoint string, n int) (string, error) {
	if n == 0 || endpoint == "" {
		return endpoint, nil
	}
	address, tcp := strings.CutPrefix(endpoint, "tcp://")
	host, text, err := net.SplitHostPort(address)
	port, parsed := strconv.Atoi(text)
	if !tcp || err != nil || parsed != nil || port+n > 65535 {
		return "", fmt.Errorf("find rank %d of %q: %w", n, endpoint, ErrEndpoint)
	}
	return "tcp://" + net.JoinHostPort(host, strconv.Itoa(port+n)), nil
}

// Run follows until ctx ends.
func (f *Follower) Run(ctx context.Context) error {
	errs := make([]error, len(f.ranks))
	var wg sync.WaitGroup
	for i, r := range f.ranks {
		wg.Go(func() { errs[i] = r.run(ctx) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

func (r *rank) run(ctx context.Context) error {
	defer r.source.Close()
	defer r.sub.Close()
	r.mu.Lock()
	r.table = newTable(func(fact *lifecycle.Fact) { r.put(ctx, fact) })
	r.mu.Unlock()
	if err := r.sub.Connect(r.events); err != nil {
		return fmt.Errorf("follow KV events: %w", err)
	}
	if err := r.sub.Subscribe(nil); err != nil {
		return fmt.Errorf("follow KV events: %w", err)
	}
	for {
		frames, err := r.sub.Recv(ctx)
		if err != nil {
			return nil // ctx has ended: nothing else ends a SUB
		}
		r.message(ctx, frames)
	}
}

// put hands a fact on.
func (r *rank) put(ctx context.Context, f *lifecycle.Fact) {
	f.T, f.Node, f.Inst, f.Src = r.cfg.Now(), r.cfg.Node, r.cfg.Name, lifecycle.Engine
	if f.Ev == lifecycle.StreamGap {
		f.Src = lifecycle.Sidecar
	}
	r.source.Put(ctx, f)
}

// message takes what came live: three frames, the topic any.
func (r *rank) message(ctx context.Context, frames [][]byte) {
	r.batches.Add(1)
	if len(frames) != 3 || len(frames[1]) != 8 {
		r.badBatch.Add(1)
		return
	}
	seq := binary.BigEndian.Uint64(frames[1])
	switch r.seq.see(seq) {
	case twice:
		r.twice.Add(1)
		return
	case restart:
		r.restarts.Add(1)
		r.empty()
	case gap:
		r.gaps.Add(1)
		r.fill(ctx, seq)
	}
	r.take(seq, frames[2])
}

// take reads a batch in its turn.
func (r *rank) take(seq uint64, payload []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seq.took(seq)
	b, err := r.dec.Decode(payload, r.table.apply)
	r.table.counts.Bad += uint64(b.Bad)
	if err != nil {
		r.badBatch.Add(1)
	}
}

// empty forgets what is known: the engine has another cache, or it is not known what
// became of it.
func (r *rank) empty() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.table.clear()
}

// fill asks for the batches before until, and forgets what is known if it cannot have
// them all.
func (r *rank) fill(ctx context.Context, until uint64) {
	if r.replay != "" {
		r.replays.Add(1)
		_ = r.ask(ctx, until) // what it did not bring is missed
	}
	if missing := until - r.seq.next; missing > 0 {
		r.missed.Add(missing)
		r.empty()
	}
}

var errOrder = errors.New("a replay out of order")

// ask has the batches from the next on replayed, until one that is here.
func (r *rank) ask(ctx context.Context, until uint64) error {
	ctx, cancel := context.WithTimeout(ctx, replayTimeout)
	defer cancel()
	d := zmtp.NewDealer(zmtp.Config{
		ReceiveBytes: socketBytes, Limits: zmtp.Limits{FrameBytes: MaxBatch, MessageBytes: MaxBatch + 1024, Frames: 5},
	})
	defer d.Close()
	if err := d.Connect(r.replay); err != nil {
		return err
	}
	if err := d.Send(ctx, nil, binary.BigEndian.AppendUint64(nil, r.seq.next)); err != nil {
		return err
	}
	for r.seq.next < until {
		frames, err := d.Recv(ctx)
		if err != nil {
			return err
		}
		m, err := stream.ParseAnswer(frames)
		switch {
		case err != nil:
			return err
		case m.Seq == stream.End || m.Seq >= until:
			return nil
		case m.Seq != r.seq.next:
			return errOrder // an older one is gone, so that the rest does not help
		}
		r.batches.Add(1)
		r.take(m.Seq, m.Payload)
	}
	return nil
}

// Stats returns the counts so far.
func (f *Follower) Stats() (s Stats) {
	for _, r := range f.ranks {
		s.Batches += r.batches.Load()
		s.Twice += r.twice.Load()
		s.BadBatch += r.badBatch.Load()
		s.Missed += r.missed.Load()
		s.Gaps += r.gaps.Load()
		s.Replays += r.replays.Load()
		s.Restarts += r.restarts.Load()
		if len(r.sub.Peers()) > 0 {
			s.Up++
		}
		r.mu.Lock()
		if r.table != nil {
			s.Counts.add(&r.table.counts)
		}
		r.mu.Unlock()
	}
	return s
}

func (c *Counts) add(o *Counts) {
	for k, n := range o.Events {
		c.Events[k] += n
	}
	c.Bad += o.Bad
	c.Salted += o.Salted
	c.Forgotten += o.Forgotten
	c.Crossings += o.Crossings
}
