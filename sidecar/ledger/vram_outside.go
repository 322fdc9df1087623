package ledger

import (
	"fmt"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/sidecar/finding"
)

// outside: what the CUDA driver was seen to give an instance. A fact says how many bytes
// from an address on lie in memory that it holds; a pool's region, or a registered one,
// that begins there and is longer lies outside.
func (l *Ledger) outside(c *call) {
	v := &c.inst.vram
	claim, pl, bytes := c.inst.claimedAt(c.f.Base)
	if beyond := bytes > c.f.Bytes; beyond == v.outside[c.f.Base] {
		return
	} else if !beyond {
		delete(v.outside, c.f.Base)
		return
	}
	if len(v.outside) >= l.cfg.Limits.Samples {
		l.stats.Forgotten.Samples++
		return
	}
	if v.outside == nil {
		v.outside = map[uint64]bool{}
	}
	v.outside[c.f.Base] = true
	l.accuse(finding.VRAMMismatch, c.inst, nil, nil, pl).
		say(claim, fmt.Sprintf("%d bytes there lie in memory that the CUDA driver gave its process", c.f.Bytes))
}

// claimedAt is the longest region in GPU memory that an instance says to begin at an
// address, or was seen to register there; 0 bytes: none.
func (i *instance) claimedAt(base uint64) (claim string, pl *pool, bytes uint64) {
	for _, r := range i.vram.regions {
		if r.memory == lifecycle.VRAM && r.base == base && r.bytes > bytes {
			claim, bytes = fmt.Sprintf("it registered %d bytes of vram at 0x%x", r.bytes, base), r.bytes
		}
	}
	for _, p := range i.pools {
		if p == nil || p.Role == "host" || len(p.pages) == 0 {
			continue
		}
		for _, r := range p.Regions {
			if n := r.Stride*uint64(len(p.pages)-1) + r.Bytes; r.Base == base && n > bytes {
				claim, pl, bytes = fmt.Sprintf("a region of its pool takes %d bytes at 0x%x", n, base), p, n
			}
		}
	}
	return claim, pl, bytes
}

// openedByAnother: a process of no engine opened memory of the instance. It is said once,
// until it has closed it.
func (l *Ledger) openedByAnother(c *call) {
	v, pid := &c.inst.vram, c.f.VRAM.PID
	switch {
	case c.f.Bytes == 0:
		delete(v.opened, pid)
		return
	case v.opened[pid]:
		return
	case len(v.opened) >= l.cfg.Limits.Samples:
		l.stats.Forgotten.Samples++
		return
	case v.opened == nil:
		v.opened = map[int64]bool{}
	}
	v.opened[pid] = true
	l.accuse(finding.VRAMMismatch, c.inst, nil, nil, nil).
		say("its memory is its own", fmt.Sprintf("process %d, of no engine, opened %d bytes of it or more", pid, c.f.Bytes))
}
