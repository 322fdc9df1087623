package cuts

import (
	"math/rand/v2"
	"sync"
)

// sector is what the disk writes as a whole, in bytes: that of today's disks. With
// sectors of 512 ext4 can tear its own superblock, of two of them, and no longer mounts.
const sector = 4096

// disk is one with a cache that forgets: what was written since the last flush is
// lost when the power goes, or not, each sector for itself. That is what a disk may
// do, and what killing a machine above a disk of the host would never show.
type disk struct {
	mu    sync.Mutex
	kept  []byte             // what no power cut takes away
	since map[int64][][]byte // by sector: what was written to it since the last flush, in order

	left int           // writes and flushes until the power goes; below 0: it stays
	dead chan struct{} // closed when it went
}

func newDisk(content []byte) *disk {
	return &disk{kept: content, since: map[int64][][]byte{}, left: -1, dead: make(chan struct{})}
}

// read reads what was written last, from anywhere.
func (d *disk) read(into []byte, at int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	copy(into, d.kept[at:])
	for n := at - at%sector; n < at+int64(len(into)); n += sector {
		if all := d.since[n]; len(all) > 0 {
			last := all[len(all)-1]
			copy(into[max(0, n-at):], last[max(0, at-n):])
		}
	}
}

// write takes whole sectors into the cache; false: there is no power.
func (d *disk) write(from []byte, at int64) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.powered() {
		return false
	}
	for n := int64(0); n < int64(len(from)); n += sector {
		d.since[at+n] = append(d.since[at+n], append([]byte(nil), from[n:n+sector]...))
	}
	return true
}

// flush makes what was written stay; false: there is no power, and it may not.
func (d *disk) flush() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.powered() {
		return false
	}
	for at, all := range d.since {
		copy(d.kept[at:], all[len(all)-1])
	}
	clear(d.since)
	return true
}

// powered counts one request down.
func (d *disk) powered() bool {
	if d.left == 0 {
		return false
	}
	if d.left > 0 {
		if d.left--; d.left == 0 {
			close(d.dead)
			return false
		}
	}
	return true
}

// cutAfter takes the power away before the n-th write or flush from now, n at least 1.
func (d *disk) cutAfter(n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.left < 0 {
		d.left = n
	}
}

// restart gives what the disk has after its power went: each sector as it was before,
// or as any write since the last flush left it. lost says how many sectors of those
// written are not as they were written last.
func (d *disk) restart(rng *rand.Rand) (next *disk, lost int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for at, all := range d.since {
		n := rng.IntN(len(all) + 1)
		if n < len(all) {
			lost++
		}
		if n > 0 {
			copy(d.kept[at:], all[n-1])
		}
	}
	return newDisk(d.kept), lost
}
