package kvevents

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"strconv"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
)

const (
	// MaxBlocks is how many blocks stored under a salt are remembered of one rank; a
	// block beyond it is not.
	MaxBlocks = 1 << 16
	// poolName is the pool that the blocks are pages of.
	poolName  = "prefix"
	domainLen = 16
	// maxDomains bounds the salts whose hashes are kept, for speed.
	maxDomains = 1 << 12
)

// Counts are what became of events.
type Counts struct {
	Events    [NumKind]uint64
	Bad       uint64 // could not be read
	Salted    uint64 // blocks stored under a salt
	Forgotten uint64 // of those, beyond MaxBlocks
	Crossings uint64 // blocks used under another salt
}

// block is one that was stored under a salt.
type block struct {
	slot   uint32
	domain string
}

// table keeps the salted blocks of one rank, and turns events into facts.
type table struct {
	emit    func(*lifecycle.Fact)
	secret  [sha256.Size]byte
	domains map[string]string

	blocks map[uint64]block
	free   []uint32
	used   uint32 // slots that were ever taken
	opened bool
	epoch  uint64
	asked  uint64 // requests made up for crossings
	counts Counts
}

func newTable(emit func(*lifecycle.Fact)) *table {
	t := &table{emit: emit, domains: map[string]string{}, blocks: map[uint64]block{}}
	_, _ = rand.Read(t.secret[:]) // never fails
	return t
}

// domain is the keyed hash of a salt.
func (t *table) domain(salt []byte) string {
	if d, known := t.domains[string(salt)]; known {
		return d
	}
	h := hmac.New(sha256.New, t.secret[:])
	h.Write(salt)
	d := hex.EncodeToString(h.Sum(nil)[:domainLen])
	if len(t.domains) >= maxDomains {
		clear(t.domains)
	}
	t.domains[string(salt)] = d
	return d
}

// apply takes over an event. Blocks beside the GPU are copies of the same contents:
// they say nothing new.
func (t *table) apply(e *Event) {
	t.counts.Events[e.Kind]++
	switch {
	case e.Kind == Cleared:
		t.clear()
	case !e.OnGPU:
	case e.Kind == Stored:
		t.store(e)
	case e.Kind == Removed:
		t.remove(e)
	}
}

// clear forgets all blocks.
func (t *table) clear() {
	if !t.opened {
		return
	}
	t.tell(lifecycle.Fact{Ev: lifecycle.PoolClosed})
	t.opened, t.used, t.free = false, 0, t.free[:0]
	clear(t.blocks)
}

func (t *table) store(e *Event) {
	above, known := t.blocks[e.Parent]
	known = known && e.HasParent
	domain := ""
	switch {
	case e.Salt != nil:
		domain = t.domain(e.Salt)
	case known:
		domain = above.domain // of a block that is built on one of a salt
	default:
		return
	}
	t.counts.Salted += uint64(len(e.Hashes))
	var crossed, fresh lifecycle.Runs
	if known && above.domain != domain {
		crossed = append(crossed, lifecycle.Run{First: above.slot, Count: 1})
	}
	for _, h := range e.Hashes {
		if b, again := t.blocks[h]; again {
			if b.domain != domain {
				crossed = add(crossed, b.slot)
			}
			continue
		}
		slot, ok := t.take()
		if !ok {
			t.counts.Forgotten++
			continue
		}
		t.blocks[h] = block{slot, domain}
		fresh = add(fresh, slot)
	}
	if fresh != nil {
		t.open(e.BlockSize)
		t.tell(lifecycle.Fact{Ev: lifecycle.PagesReserved, Pages: fresh, Holder: "cache"})
		t.tell(lifecycle.Fact{Ev: lifecycle.PagesCached, Pages: fresh, Domain: lifecycle.Some(domain)})
	}
	if crossed != nil {
		t.cross(crossed, domain)
	}
}

// cross says that a request of a domain uses blocks of another. The events name no
// request, so that it gets a name here.
func (t *table) cross(pages lifecycle.Runs, domain string) {
	t.counts.Crossings += uint64(pages.Pages())
	t.asked++
	req := "kv-event-" + strconv.FormatUint(t.asked, 10)
	t.tell(lifecycle.Fact{Ev: lifecycle.RequestAdmitted, Req: req, Domain: lifecycle.Some(domain)})
	t.tell(lifecycle.Fact{Ev: lifecycle.PagesShared, Req: req, Pages: pages, Domain: lifecycle.Some(domain)})
	t.tell(lifecycle.Fact{Ev: lifecycle.PagesReleased, Req: req, Pages: pages})
	t.tell(lifecycle.Fact{Ev: lifecycle.RequestFinished, Req: req, Finish: lifecycle.FinishStop})
}

func (t *table) remove(e *Event) {
	var gone lifecycle.Runs
	for _, h := range e.Hashes {
		if b, known := t.blocks[h]; known {
			delete(t.blocks, h)
			t.free = append(t.free, b.slot)
			gone = add(gone, b.slot)
		}
	}
	if gone != nil {
		t.tell(lifecycle.Fact{Ev: lifecycle.PagesEvicted, Pages: gone})
	}
}

// take is a slot that no block has.
func (t *table) take() (slot uint32, ok bool) {
	if n := len(t.free); n > 0 {
		slot = t.free[n-1]
		t.free = t.free[:n-1]
		return slot, true
	}
	if t.used == MaxBlocks {
		return 0, false
	}
	t.used++
	return t.used - 1, true
}

// add appends a page to runs, to the last of them where it follows it.
func add(runs lifecycle.Runs, page uint32) lifecycle.Runs {
	if n := len(runs); n > 0 && runs[n-1].End() == page {
		runs[n-1].Count++
		return runs
	}
	return append(runs, lifecycle.Run{First: page, Count: 1})
}

// open tells of the pool, once in each epoch.
func (t *table) open(tokens int64) {
	if t.opened {
		return
	}
	t.opened = true
	t.epoch++
	t.tell(lifecycle.Fact{Ev: lifecycle.PoolOpened, Spec: &lifecycle.PoolSpec{
		Pages: MaxBlocks, PageTokens: min(max(tokens, 1), 1<<20), Role: "prefix", Owes: lifecycle.OwesNone, Since: lifecycle.SinceStart,
		Claims: lifecycle.Some([]lifecycle.Ev{lifecycle.PagesCached, lifecycle.PagesEvicted}),
	}})
}

// tell hands a fact of the pool on.
func (t *table) tell(f lifecycle.Fact) {
	if f.Ev != lifecycle.RequestAdmitted && f.Ev != lifecycle.RequestFinished {
		f.Pool = poolName
	}
	f.Epoch = lifecycle.Some(t.epoch)
	t.emit(&f)
}
