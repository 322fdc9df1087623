package ledger

// flags is what is known of a page's present generation.
type flags uint16

const (
	ownerRef flags = 1 << iota // the request that it was handed to still holds it
	cached                     // the prefix cache holds it
	local                      // filled by forward, reload or copy, as claimed
	claimed                    // filled by a transfer, as claimed
	observed                   // every byte seen to arrive
	watched                    // its handoff's incoming data are seen completely
	copied                     // its domain is that of its content
	wasRead                    // read in this generation
	unknown                    // says nothing until it is handed out again
	null                       // never handed out
	robbed                     // a hand-out took it from the cache, which has not given it back since
)

// page is one physical page of a pool: 32 bytes, so that ten million of them
// fit where the facts about them arrive. born is the tick of the hand-out that
// began the present generation and so stands for the generation itself; 0 is
// "never handed out".
type page struct {
	born    uint64
	owner   partyID // to whom it was handed out
	content partyID // whose bytes lie in it
	refs    uint32  // requests that hold it
	act     uint32  // the transfers that name it: index into pool.acts, 0 none
	key     uint32  // hash of its prefix key, 0 unknown
	flags   flags
}

// held reports whether a request or the cache has a reference.
func (p *page) held() bool { return p.refs > 0 || p.flags&cached != 0 }

// written is hard case 1: filled in the present generation, where a claim of
// a transfer counts only as long as nobody watches the transfers.
func (p *page) written() bool {
	if p.flags&watched != 0 {
		return p.flags&(local|observed) != 0
	}
	return p.flags&(local|claimed|observed) != 0
}

// filled reports whether anything at all was put there in this generation.
func (p *page) filled() bool { return p.flags&(local|claimed|observed) != 0 }

// mute reports whether the page says nothing: null, or unknown (hard case 10).
func (pl *pool) mute(p *page) bool {
	return p.flags&(null|unknown) != 0 || p.born < pl.knownFrom
}

// unseen reports whether what the page holds is unknown, unlike a null page.
func (pl *pool) unseen(p *page) bool { return p.flags&null == 0 && pl.mute(p) }
