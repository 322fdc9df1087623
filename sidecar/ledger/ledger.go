package ledger

import (
	"math"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/sidecar/finding"
)

// Ledger judges facts. It is not safe for concurrent use.
type Ledger struct {
	cfg   Config
	win   window
	insts map[string]*instance
	rooms map[string]*room
	ended []*room // rooms that ended, the oldest first
	gone  int     // how many of ended are gone

	byAge []*room // all, private ones too, the oldest first; some are gone
	alive int     // how many are not

	mostRooms int // that may be alive: as many as requests and their ends account for

	clocks  map[string]int64 // clock offset of each node, ns
	vram    map[string]*nodeVRAM
	parties parties
	timers  timers

	transfers []*transfer // by slot; 0 is none
	freeSlots []uint32

	now  int64  // the time up to which facts are applied
	tick uint64 // counts applied facts

	pools, pages                  int // what the limits bound
	activities, fragments, strays int
	straysDue                     int64 // when to look for old ones again
	pendingReads                  int
	oldest, newest                *request // requests that have not ended, by age
	live                          int      // how many they are
	idlest, busiest               *request // requests that hold pages, by their last progress

	lastInst   *instance // of the last facts, to save looking them up
	lastSender *instance

	batch    bool // the fact being applied is one of several of its batch
	breaches []breach
	out      []finding.Finding
	verdicts []finding.Verdict
	stats    Stats
}

// New returns a Ledger that has seen nothing.
func New(cfg Config) *Ledger {
	cfg = cfg.withDefaults()
	return &Ledger{
		cfg: cfg, win: newWindow(), mostRooms: cfg.Limits.Requests + cfg.Limits.Ended,
		insts: map[string]*instance{}, rooms: map[string]*room{},
		clocks: map[string]int64{}, vram: map[string]*nodeVRAM{},
		parties: parties{all: make([]party, 1)}, transfers: make([]*transfer, 1),
	}
}

// Step takes a fact, in the order of arrival, and keeps it until it is
// applied: the caller must not change it. It returns the findings that became
// certain; the slice is valid until the next call.
func (l *Ledger) Step(f *lifecycle.Fact) []finding.Finding {
	l.out = l.out[:0]
	l.stats.Seen++
	if f.Ev == lifecycle.ClockOffset {
		l.setClock(f)
	}
	at := f.T
	if len(l.clocks) > 0 {
		at -= l.clocks[f.Node]
	}
	inst := l.lastInst // before more of f is fetched from memory
	if inst == nil || inst.name != f.Inst {
		inst = l.instance(f.Inst, f.Node)
	}
	if inst == nil && f.Inst != "" {
		l.stats.Unjudged++
		return nil
	}
	late := at < l.win.horizon(l.orderTime())
	if inst != nil {
		if inst.outdated(f) {
			l.stats.Outdated++
			return nil
		}
		if f.Seq.Has {
			return l.stepNumbered(held{f, inst, at}, late)
		}
	}
	if late {
		l.late(inst, f)
	} else {
		l.win.push(held{f, inst, at})
		l.catchUp()
	}
	return l.out
}

// stepNumbered is Step for a fact with a sequence number.
func (l *Ledger) stepNumbered(h held, late bool) []finding.Finding {
	s := h.inst.stream(h.f)
	what := s.arrive(h.f.Seq.V, l.cfg.Limits.Missing)
	switch {
	case what == duplicate:
		l.stats.Duplicates++
		return nil
	case late || what == tooLate:
		if what == fills {
			s.known.add(h.f.Seq.V, h.f.Seq.V, l.cfg.Limits.Missing) // it is not missing
		}
		l.late(h.inst, h.f)
		return l.out
	case what == fills:
		l.win.pushInOrder(h)
	default:
		h.at = max(h.at, s.lastAt)
		s.lastAt = h.at
		l.win.push(h)
	}
	l.catchUp()
	return l.out
}

// Advance tells the time when no fact does: now is in ns, on the clock of the
// node whose clock_offset is 0. It returns findings like Step.
func (l *Ledger) Advance(now int64) []finding.Finding {
	l.out = l.out[:0]
	l.win.high = max(l.win.high, now)
	l.catchUp()
	return l.out
}

// Close judges all that is open, as at the end of a trace, and returns the
// last findings. The Ledger must not be used afterwards but for Verdicts and
// Stats.
func (l *Ledger) Close() []finding.Finding {
	l.out = l.out[:0]
	l.applyUntil(math.MaxInt64)
	l.finish()
	return l.out
}

// Verdicts returns those given since the last call.
func (l *Ledger) Verdicts() []finding.Verdict {
	v := l.verdicts
	l.verdicts = nil
	return v
}

func (l *Ledger) settleTime() int64 { return l.cfg.Settle.Nanoseconds() }

func (l *Ledger) orderTime() int64 { return l.cfg.Order.Nanoseconds() }

// catchUp applies what has waited to be put in order, or is too much to hold.
func (l *Ledger) catchUp() {
	until := l.win.high - l.orderTime()
	l.applyUntil(until)
	for l.win.len() > l.cfg.Limits.Window {
		l.stats.Forgotten.Window++
		l.applyUntil(l.win.facts[l.win.head].at)
	}
	l.fire(until)
	l.now = max(l.now, until)
}

func (l *Ledger) applyUntil(until int64) {
	for group := l.win.pop(until); group != nil; group = l.win.pop(until) {
		at := group[0].at
		l.fire(at)
		l.now = at
		l.applyGroup(group)
	}
	l.win.compact()
}

// setClock takes over how a node's clock stands, at once: it says how the
// facts that come next are to be read.
func (l *Ledger) setClock(f *lifecycle.Fact) {
	if _, known := l.clocks[f.Node]; known || len(l.clocks) < l.cfg.Limits.Instances {
		l.clocks[f.Node] = f.NS
	}
}

// apply lets a fact count. A fact whose epoch ended while it waited does not.
func (l *Ledger) apply(h held) {
	f, inst := h.f, h.inst
	l.tick++
	if l.alive > l.mostRooms {
		l.boundRooms()
	}
	if inst != nil && (inst.outdated(f) || inst.ofAnother(f)) {
		l.stats.Outdated++
		return
	}
	l.stats.Applied++
	if inst != nil {
		inst.engine = inst.engine || f.Src == lifecycle.Engine
		if len(inst.asked) > 0 && f.Src.Claims() {
			l.answer(inst)
		}
		if f.Ev != lifecycle.BytesMoved && f.Step.Has {
			later := f.Step.V > inst.step
			inst.stepped(f.Step.V)
			if later {
				l.mature(inst, f.Step.V)
			}
		}
	}
	if f.Ev == lifecycle.TransferCompleted && f.Outcome == lifecycle.OK {
		l.straysLanded(f)
	}
	c := l.resolve(inst, f)
	if c.void {
		l.stats.Void++
		if c.room != nil {
			switch f.Ev {
			case lifecycle.TransferCompleted:
				l.toldOfNothing(&c)
			case lifecycle.TransferDrained:
				l.drainedOfNothing(&c)
			}
		}
		return
	}
	l.check(&c)
	l.settle(f)
	l.change(&c)
	l.settle(f)
}

// call is a fact with what it names.
type call struct {
	f    *lifecycle.Fact
	inst *instance
	pool *pool
	req  *request
	room *room
	tr   *transfer
	void bool // it names what is not there

	misnames bool // a page that is not its request's
	hit      hit  // of bytes_moved: what is booked now
}

// check asks every rule that a fact can break. It changes nothing.
func (l *Ledger) check(c *call) {
	switch c.f.Ev {
	case lifecycle.PagesReserved:
		l.checkReserved(c)
	case lifecycle.PagesShared:
		l.checkShared(c)
	case lifecycle.PagesWritten:
		l.checkWritten(c)
	case lifecycle.PagesRead:
		l.checkRead(c)
	case lifecycle.PagesCached:
		l.foreignCache(c)
	case lifecycle.PagesReleased:
		l.checkReleased(c)
	case lifecycle.PagesEvicted:
		l.checkEvicted(c)
	case lifecycle.RequestAdmitted:
		l.promptMismatch(c)
	case lifecycle.RequestFinished:
		l.rejectedSuccess(c)
	case lifecycle.TransferStarted:
		l.checkTransfer(c)
	case lifecycle.TransferCompleted:
		l.rejectedCompletion(c)
	case lifecycle.ContentDigest:
		l.contentMismatch(c)
	case lifecycle.PoolAudit:
		l.poolImbalance(c)
	}
}

// change lets a fact change what is known.
func (l *Ledger) change(c *call) {
	switch f := c.f; f.Ev {
	case lifecycle.PoolOpened:
		l.poolOpened(c)
	case lifecycle.PoolClosed:
		l.closePool(c.pool)
	case lifecycle.RequestAdmitted:
		l.requestAdmitted(c)
	case lifecycle.RequestRejected:
		l.requestRejected(c)
	case lifecycle.RequestAborted:
		l.requestAborted(c)
	case lifecycle.RequestFinished:
		l.requestFinished(c)
	case lifecycle.PagesReserved:
		l.reserve(c)
	case lifecycle.PagesShared:
		l.share(c)
	case lifecycle.PagesWritten:
		l.write(c)
	case lifecycle.PagesCopied:
		l.copyPages(c)
	case lifecycle.PagesRead:
		l.read(c)
	case lifecycle.PagesCached:
		l.cache(c)
	case lifecycle.PagesReleased:
		l.release(c)
	case lifecycle.PagesEvicted:
		l.evict(c)
	default:
		l.changeOther(c)
	}
}

// changeOther is change for facts about transfers, sight and the device.
func (l *Ledger) changeOther(c *call) {
	switch f := c.f; f.Ev {
	case lifecycle.TransferStarted:
		l.transferStarted(c)
	case lifecycle.TransferCompleted:
		l.transferCompleted(c)
	case lifecycle.TransferDrained:
		l.drain(c.tr)
	case lifecycle.PeerGone:
		l.peerGone(c)
	case lifecycle.BytesMoved:
		l.bytesMoved(c)
	case lifecycle.ContentDigest:
		l.keepDigest(c)
	case lifecycle.RegionRegistered:
		l.regionRegistered(c)
	case lifecycle.RegionDeregistered:
		l.regionDeregistered(c)
	case lifecycle.PoolAudit:
		l.heldImbalance(c)
	case lifecycle.VRAMUsage:
		l.vramUsage(c)
	case lifecycle.SourceCoverage:
		l.sourceCoverage(c)
	case lifecycle.StreamGap, lifecycle.EventsLost:
		l.lost(c)
	}
}
