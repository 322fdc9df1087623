package ledger

import (
	"slices"
	"strings"

	"github.com/kvwitness/kvwitness/sidecar/finding"
)

// PageState is what is known of a page, for people to look at. No rule asks for it.
type PageState uint8

// The states of a page.
const (
	PageFree     PageState = iota // nobody holds it
	PageNull                      // it is never handed out
	PageUnknown                   // nothing is known of it until it is handed out again
	PageCached                    // the prefix cache alone holds it
	PageReserved                  // held, and nothing was put there in this generation
	PageClaimed                   // held, and written as the engine claims
	PageSeen                      // held, and seen to be written
	PageStale                     // held and read, and nothing was put there
	NumPageState
)

var pageStates = [NumPageState]string{"free", "null", "unknown", "cached", "reserved", "written", "seen", "read unwritten"}

func (s PageState) String() string { return pageStates[s] }

// PoolView is a pool that is open.
type PoolView struct {
	Inst, Node, Pool, Role string
	Pages                  int
	PageTokens             int64
}

// Holder is who holds a page, and whose data lie in it.
type Holder struct {
	Holder  finding.Party // to whom it was handed out
	Held    bool          // and who still holds it
	Content finding.Party // Inst is empty where nobody's are known
	Refs    int           // requests that hold it
	Cached  bool          // the prefix cache holds it
}

// Pools lists the pools that are open, by instance and name.
func (l *Ledger) Pools() (all []PoolView) {
	for _, inst := range l.insts {
		for _, pl := range inst.pools {
			if pl != nil {
				all = append(all, PoolView{inst.name, inst.node, pl.name, pl.Role, len(pl.pages), pl.PageTokens})
			}
		}
	}
	slices.SortFunc(all, func(a, b PoolView) int {
		return strings.Compare(a.Inst+"\x00"+a.Pool, b.Inst+"\x00"+b.Pool)
	})
	return all
}

// PageLook is how a page looks. Pages of one holder have the same shade, of Shades.
type PageLook struct {
	State PageState
	Shade uint8
}

// Shades is how many shades of a state there are.
const Shades = 4

// Look writes how pages look, from first on, and returns how many the pool has from
// there, at most len(into).
func (l *Ledger) Look(inst, pool string, first int, into []PageLook) int {
	pl := l.viewed(inst, pool)
	if pl == nil || first < 0 || first >= len(pl.pages) {
		return 0
	}
	n := min(len(into), len(pl.pages)-first)
	for i := range n {
		p := &pl.pages[first+i]
		into[i] = PageLook{pl.state(p), uint8(uint32(p.owner) * 2654435769 >> 30)}
	}
	return n
}

// Holder says who holds a page; false where there is no such page.
func (l *Ledger) Holder(inst, pool string, page int) (h Holder, ok bool) {
	pl := l.viewed(inst, pool)
	if pl == nil || page < 0 || page >= len(pl.pages) {
		return h, false
	}
	p := &pl.pages[page]
	h.Holder, _ = l.parties.show(p.owner)
	h.Content, _ = l.parties.show(p.content)
	h.Held, h.Refs, h.Cached = p.flags&ownerRef != 0, int(p.refs), p.flags&cached != 0
	return h, true
}

func (l *Ledger) viewed(inst, pool string) *pool {
	if i := l.insts[inst]; i != nil {
		return i.byName[pool]
	}
	return nil
}

func (pl *pool) state(p *page) PageState {
	switch {
	case p.flags&null != 0:
		return PageNull
	case pl.mute(p):
		return PageUnknown
	case p.refs == 0 && p.flags&cached != 0:
		return PageCached
	case p.refs == 0:
		return PageFree
	case p.flags&observed != 0:
		return PageSeen
	case p.filled():
		return PageClaimed
	case p.flags&wasRead != 0:
		return PageStale
	}
	return PageReserved
}
