package ledger

import "github.com/kvwitness/kvwitness/engine/lifecycle"

// stagedBytes are the bytes of one transfer that came to a staging region.
type stagedBytes struct{ ok, posted uint64 }

// staged books bytes for a staging region: its pages are not seen one by one,
// so the bytes of the transfer are counted against the bytes owed (hard case
// 1). The region is a ring, so equal addresses are not retries.
func (l *Ledger) staged(c *call, from *instance, st *stretch, n uint64) {
	var owner *transfer
	rooms := l.sourceRooms(c, from)
	for t := range c.inst.running {
		if t.recv != c.inst || from != nil && t.send != from || c.f.Xfer != "" && t.xfer != c.f.Xfer || !t.open() {
			continue
		}
		if c.f.Xfer == "" && rooms != nil && !rooms[t.room] {
			continue
		}
		if owner != nil && owner.room != t.room {
			l.blur(owner.into)
			l.blur(t.into)
			return
		}
		owner = t
	}
	if owner == nil {
		owner = c.inst.parted(c.f.Xfer, from)
	}
	if owner == nil {
		l.stats.Elsewhere++
		return
	}
	c.tr = owner
	if owner.staged == nil {
		owner.staged = map[*pool]stagedBytes{}
	}
	s := owner.staged[st.pool]
	switch c.f.Outcome {
	case lifecycle.Errored:
		s.posted -= min(n, s.posted)
		owner.completesStaged(int64(n))
	case lifecycle.Posted:
		s.posted += n
		owner.posted += int64(n)
	default:
		s.posted -= min(n, s.posted)
		s.ok += n
		owner.completesStaged(int64(n))
	}
	owner.staged[st.pool] = s
}

// completesStaged takes n bytes from what is posted, be it by an earlier try of the
// same sender.
func (t *transfer) completesStaged(n int64) {
	n = t.unposted(n)
	for _, other := range t.into.transfers {
		if other.send == t.send {
			n = other.unposted(n)
		}
	}
}

// parted is the transfer of that name whose peer was said to be gone, and goes on all
// the same: what was said may be of an earlier life of the peer. Its bytes count if it
// completes.
func (i *instance) parted(xfer string, from *instance) (found *transfer) {
	for h := range i.waiting {
		for _, t := range h.transfers {
			switch {
			case !t.gone || t.xfer != xfer || xfer == "" || from != nil && t.send != from:
			case found != nil: // it may be either
				return nil
			default:
				found = t
			}
		}
	}
	return found
}
