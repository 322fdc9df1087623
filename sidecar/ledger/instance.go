package ledger

import (
	"github.com/kvwitness/kvwitness/engine/lifecycle"
)

// instance is what is known of one engine process.
type instance struct {
	name  string
	node  string // of the fact that opened its first pool, else of the first about it
	epoch lifecycle.Opt[uint64]
	past  map[uint64]struct{} // epochs that are over

	pools   []*pool // closed ones are nil, so that an index is never reused
	byName  map[string]*pool
	byAddr  []stretch // regions sorted by base
	reqs    map[string]*request
	streams [lifecycle.NumSrc][]*stream
	sight   sight

	engine    bool   // a fact of src engine was applied
	seenSince uint64 // tick of its last gap, or of its attachment: what was said before is not known
	step      int64  // the latest scheduling step said
	blindTo   int64  // steps up to this one were in part out of sight, -1: none
	blindNext bool   // so is the step that is said next

	running map[*transfer]struct{} // not drained, to it or from it
	waiting map[*handoff]struct{}  // into it, not judged
	asked   []asked                // handoffs from it whose halves are to be compared
	pending []*pendingRead         // reads whose step has not ended, by time
	doubts  int                    // of the transfers to it
	strays  strays                 // posted to it

	layoutSeen map[*instance]struct{} // peers already compared
	vram       vramState
}

// maxPastEpochs bounds the epochs remembered as over; an older one would be
// taken for a restart.
const maxPastEpochs = 64

func (l *Ledger) instance(name, node string) *instance {
	if l.lastInst != nil && l.lastInst.name == name {
		return l.lastInst
	}
	if inst := l.insts[name]; inst != nil || name == "" {
		l.lastInst = inst
		return inst
	}
	if len(l.insts) >= l.cfg.Limits.Instances {
		l.stats.Forgotten.Instances++
		return nil
	}
	inst := &instance{
		name: name, node: node, step: -1, blindTo: -1,
		byName: map[string]*pool{}, reqs: map[string]*request{},
		past: map[uint64]struct{}{}, running: map[*transfer]struct{}{}, waiting: map[*handoff]struct{}{},
		layoutSeen: map[*instance]struct{}{},
	}
	l.insts[name] = inst
	return inst
}

// promises reports whether the instance's stream says that it names every
// event of that kind, in any of its pools.
func (i *instance) promises(ev lifecycle.Ev) bool {
	for _, pl := range i.pools {
		if pl != nil && pl.promises(ev) {
			return true
		}
	}
	return false
}

// outdated reports whether a fact is of an epoch that is over.
func (i *instance) outdated(f *lifecycle.Fact) bool {
	if len(i.past) == 0 || !f.Epoch.Has {
		return false
	}
	_, over := i.past[f.Epoch.V]
	return over
}

// ofAnother reports whether a fact is of an epoch that was never opened, while
// another is the current one. The first that anybody names is; bytes, which are
// many, name none.
func (i *instance) ofAnother(f *lifecycle.Fact) bool {
	if f.Ev == lifecycle.BytesMoved && !i.epoch.Has || f.Ev == lifecycle.PoolOpened || !f.Epoch.Has {
		return false
	}
	if !i.epoch.Has {
		i.epoch = f.Epoch
	}
	return i.epoch != f.Epoch
}

// outOfSight notes that what was said until now is not known. What is dated no
// later than the step that is said next may be of then, too.
func (i *instance) outOfSight(tick uint64) { i.seenSince, i.blindNext = tick, true }

// stepped takes in the step of a fact.
func (i *instance) stepped(step int64) {
	i.step = max(i.step, step)
	if i.blindNext {
		i.blindTo, i.blindNext = i.step, false
	}
}
