package publish

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/kvwitness/kvwitness/engine/kvcache"
	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/engine/scheduler"
)

// MaxPools bounds the pools of one instance.
const MaxPools = 64

var (
	// ErrConfig is returned for a configuration that cannot be told from.
	ErrConfig = errors.New("unusable configuration of the lifecycle stream")
	// ErrPools is returned for a pool that is named twice, has no pages, or is
	// one too many.
	ErrPools = errors.New("unusable pool")
)

// Identity is who tells, and by which clock.
type Identity struct {
	// Instance is the inst of every fact.
	Instance string
	// Epoch tells the starts of an instance apart: no two may have the same one.
	// At most 1<<63.
	Epoch uint64
	// Now reads the node's clock in nanoseconds: the clock by which the scheduler
	// and the pools are told the time.
	Now func() int64
	// TransferPool is the pool that the pages of transfers belong to. Default kv.
	TransferPool string
	// QueueEvents and QueueRuns bound what waits to be told. 0: the defaults.
	QueueEvents, QueueRuns int
}

func (id *Identity) complete() error {
	if id.Instance == "" || len(id.Instance) > lifecycle.MaxID {
		return fmt.Errorf("%w: an instance of %d bytes, want 1 to %d", ErrConfig, len(id.Instance), lifecycle.MaxID)
	}
	if id.Epoch > 1<<63 || id.Now == nil {
		return fmt.Errorf("%w: epoch %d, want at most 1<<63, and a clock", ErrConfig, id.Epoch)
	}
	if id.TransferPool == "" {
		id.TransferPool = "kv"
	}
	if id.QueueEvents <= 0 {
		id.QueueEvents = DefaultQueueEvents
	}
	if id.QueueRuns <= 0 {
		id.QueueRuns = DefaultQueueRuns
	}
	return nil
}

// Teller is what an engine talks to. It is the [scheduler.Events] of its
// scheduler, and PoolEvents makes the [kvcache.Events] of each pool. Facts come
// in the order of the calls, so that all of them belong on the goroutine that
// drives the scheduler; from others they are safe.
type Teller struct {
	id       Identity
	q        *queue
	pools    []*Pool // by the order of PoolEvents
	withheld atomic.Uint64
	ran      [scheduler.NumProtections]atomic.Uint64
	stopped  [scheduler.NumProtections]atomic.Uint64
}

func newTeller(id Identity) *Teller {
	return &Teller{id: id, q: newQueue(id.QueueEvents, id.QueueRuns)}
}

// PoolEvents opens a pool of this instance and returns the listener for its
// kvcache.Config. spec is published as it is, with Since start. Pools are opened
// before the engine works, from one goroutine.
func (t *Teller) PoolEvents(name string, spec lifecycle.PoolSpec) (*Pool, error) {
	if name == "" || len(name) > lifecycle.MaxID || len(t.pools) >= MaxPools || spec.Pages == 0 || spec.Pages > lifecycle.MaxPages {
		return nil, fmt.Errorf("open pool %q of %d pages as number %d of at most %d: %w", name, spec.Pages, len(t.pools)+1, MaxPools, ErrPools)
	}
	for _, p := range t.pools {
		if p.name == name {
			return nil, fmt.Errorf("open pool %q a second time: %w", name, ErrPools)
		}
	}
	spec.Since = lifecycle.SinceStart
	p := &Pool{t: t, name: name, index: len(t.pools), spec: spec}
	t.pools = append(t.pools, p)
	t.q.put(&event{kind: poolOpened, at: kvcache.At{Now: t.id.Now()}, pool: p}, nil, nil, nil)
	return p, nil
}

// Flush has what was told so far sent at once. Who pauses should call it, when what it
// does has been told to its end (a release, and whether it waits for a drain): the
// goroutine that tells then runs while the caller waits, where it would otherwise
// have its turn when a processor is free, and a computation leaves none for long.
func (t *Teller) Flush() { t.q.urge() }

// hashed is domain if it can be published: empty, or a hash in lower-case hex.
func (t *Teller) hashed(domain kvcache.Domain) (string, bool) {
	if domain == "" {
		return "", true
	}
	if len(domain) >= 8 && len(domain) <= 64 && strings.Trim(string(domain), "0123456789abcdef") == "" {
		return string(domain), true
	}
	t.withheld.Add(1)
	return "", false
}

func (t *Teller) aboutRequest(k kind, at kvcache.At, r scheduler.Info) event {
	return event{kind: k, at: at, req: r.Req, room: r.Room, yes: r.Synthetic}
}

// Admitted implements scheduler.Events, as do the methods up to Protected.
func (t *Teller) Admitted(at kvcache.At, r scheduler.Info, prefixTokens int) {
	e := t.aboutRequest(requestAdmitted, at, r)
	e.n[0], e.n[1] = int64(r.PromptTokens), int64(prefixTokens)
	e.name, e.has = t.hashed(r.Domain)
	t.q.put(&e, nil, nil, nil)
}

func (t *Teller) Rejected(at kvcache.At, r scheduler.Info, status int, reason string) {
	e := t.aboutRequest(requestRejected, at, r)
	e.n[0], e.text = int64(status), reason
	t.q.put(&e, nil, nil, nil)
}

func (t *Teller) Aborted(at kvcache.At, r scheduler.Info, reason string) {
	e := t.aboutRequest(requestAborted, at, r)
	e.text = reason
	t.q.put(&e, nil, nil, nil)
}

func (t *Teller) Finished(at kvcache.At, r scheduler.Info, o scheduler.Outcome) {
	e := t.aboutRequest(requestFinished, at, r)
	e.n[0], e.n[1] = int64(o.Status), int64(o.Finish)
	t.q.put(&e, nil, nil, nil)
}

func (t *Teller) TransferStarted(at kvcache.At, r scheduler.Info, x kvcache.Xfer, side scheduler.Side, peer scheduler.Peer, pages []kvcache.PageID) {
	e := t.aboutRequest(transferStarted, at, r)
	e.xfer, e.side, e.name = x, side, string(peer)
	t.q.putPages(&e, pages)
}

func (t *Teller) TransferCompleted(at kvcache.At, r scheduler.Info, x kvcache.Xfer, side scheduler.Side, peer scheduler.Peer, ok bool, extent scheduler.Extent, last bool) {
	e := t.aboutRequest(transferCompleted, at, r)
	e.xfer, e.side, e.name = x, side, string(peer)
	e.yes, e.last, e.has, e.n[0] = ok, last, extent.Known, int64(extent.Tokens)
	t.q.put(&e, nil, nil, nil)
}

func (t *Teller) TransferDrained(at kvcache.At, room scheduler.Room, x kvcache.Xfer, side scheduler.Side, peer scheduler.Peer) {
	t.q.put(&event{kind: transferDrained, at: at, room: room, xfer: x, side: side, name: string(peer)}, nil, nil, nil)
}

func (t *Teller) PeerGone(at kvcache.At, peer scheduler.Peer) {
	t.q.put(&event{kind: peerGone, at: at, name: string(peer)}, nil, nil, nil)
}

// Protected tells the first run of a protection and each time that it stopped
// something; the runs between are counted in [Stats].
func (t *Teller) Protected(at kvcache.At, p scheduler.Protection, stopped bool) {
	if p >= scheduler.NumProtections {
		return
	}
	first := t.ran[p].Add(1) == 1
	if stopped {
		t.stopped[p].Add(1)
	}
	if p == scheduler.DrainBeforeRelease && !stopped {
		t.q.put(&event{kind: afterRelease, at: at}, nil, nil, nil)
	}
	if first || stopped {
		t.q.put(&event{kind: protection, at: at, state: lifecycle.StateRan, name: p.String()}, nil, nil, nil)
	}
}

// ProtectionState tells of a protection that is off or not supported, or of one
// that is no [scheduler.Protection].
func (t *Teller) ProtectionState(at kvcache.At, name string, state lifecycle.State) {
	t.q.put(&event{kind: protection, at: at, state: state, name: name}, nil, nil, nil)
}

// Digest tells the digest of what was sent or lies in a pool's pages for a room:
// a hash that is keyed or of the bytes as a whole, never content.
func (t *Teller) Digest(at kvcache.At, room scheduler.Room, pool *Pool, side scheduler.Side, digest string) {
	t.q.put(&event{kind: contentDigest, at: at, room: room, pool: pool, side: side, text: digest}, nil, nil, nil)
}
