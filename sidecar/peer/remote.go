package peer

import (
	"fmt"
	"sync/atomic"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/sidecar/intake"
)

// Bounds of what one instance of a peer may name. The judge has the same bounds over
// all instances; without these one could use them up.
const (
	MaxPools = 64  // at a time
	MaxPeers = 256 // other instances, in all
	// maxRemotes is how many instances a peer may call its own in all.
	maxRemotes = 4 * MaxInstances
	// queueBytes is how much of one instance's facts may wait.
	queueBytes = 2 << 20
)

var errTooMuch = fmt.Errorf("more than one instance may have: at most %d pools and %d peers, and the pages that engine_pages says", MaxPools, MaxPeers)

// remote is one instance of the peer, whose stream is followed.
type remote struct {
	inst  string
	src   *intake.Source
	stand atomic.Uint32 // an intake.Standing

	following bool
	theirs    lifecycle.Opt[uint64] // the epoch that the engine names
	epoch     uint64                // the one that the judge is told: see lose
	last      lifecycle.Opt[uint64] // seq of the last fact
	pools     map[string]int        // pages
	pages     int
	peers     map[string]struct{}
}

func newRemote(inst string, in *intake.Intake, epoch uint64) *remote {
	r := &remote{inst: inst, epoch: epoch, pools: map[string]int{}, peers: map[string]struct{}{}}
	r.src = in.OpenRemote(inst, queueBytes, func() intake.Standing { return intake.Standing(r.stand.Load()) })
	return r
}

// begin makes others wait for the instance's snapshot, which is asked for next.
func (r *remote) begin() {
	r.following = true
	r.stand.Store(uint32(intake.CatchingUp))
}

// lose tells the judge that nothing is known of the instance from now on. Its stream
// is lost; and then it is as one that was never followed, so that its silence is not
// taken for its word: the judge forgets a stream when an instance starts anew, as it
// does here, in an epoch of our own, with a pool that it has not. Therefore the judge
// knows epochs of ours only.
func (r *remote) lose(node, why string, epoch uint64) {
	if !r.following {
		return
	}
	r.epoch = epoch
	about := lifecycle.Fact{Node: node, Inst: r.inst, Src: lifecycle.Sidecar}
	lost, anew, closed := about, about, about
	lost.Ev, lost.Of, lost.Stage, lost.Reason = lifecycle.EventsLost, lifecycle.Engine, "peer", why
	anew.Ev, anew.Pool, anew.Epoch = lifecycle.PoolOpened, "out of sight", lifecycle.Some(epoch)
	anew.Spec = &lifecycle.PoolSpec{Pages: 1, PageTokens: 1, Owes: lifecycle.OwesNone, Since: lifecycle.SinceAttach}
	closed.Ev, closed.Pool, closed.Epoch = lifecycle.PoolClosed, anew.Pool, anew.Epoch
	r.src.Interject(0, &lost, &anew, &closed)
	r.stand.Store(uint32(intake.Away))
	r.following, r.theirs = false, lifecycle.Opt[uint64]{}
	r.forget()
}

func (r *remote) forget() {
	r.last, r.pages = lifecycle.Opt[uint64]{}, 0
	clear(r.pools)
}

// place gives a fact of the instance its epoch, and reports whether it is new. fresh
// makes an epoch.
func (r *remote) place(f *lifecycle.Fact, fresh func() uint64) (isNew bool) {
	if f.Epoch.Has && f.Epoch != r.theirs {
		if r.theirs.Has {
			r.epoch = fresh()
		}
		r.theirs = f.Epoch
		r.forget()
	}
	f.Epoch = lifecycle.Some(r.epoch)
	if f.Src != lifecycle.Engine || !f.Seq.Has {
		return true
	}
	if r.last.Has && f.Seq.V <= r.last.V {
		return false
	}
	r.last = f.Seq
	return true
}

// bounded refuses what is beyond the bounds of one instance.
func (r *remote) bounded(f *lifecycle.Fact, maxPages int) error {
	if f.Peer != "" {
		if _, known := r.peers[f.Peer]; !known && len(r.peers) >= MaxPeers {
			return errTooMuch
		}
		r.peers[f.Peer] = struct{}{}
	}
	switch f.Ev {
	case lifecycle.PoolOpened:
		if _, known := r.pools[f.Pool]; known || f.Spec == nil {
			return nil
		}
		if len(r.pools) >= MaxPools || r.pages+int(f.Spec.Pages) > maxPages {
			return errTooMuch
		}
		r.pools[f.Pool] = int(f.Spec.Pages)
		r.pages += int(f.Spec.Pages)
	case lifecycle.PoolClosed:
		r.pages -= r.pools[f.Pool]
		delete(r.pools, f.Pool)
	}
	return nil
}
