package ledger

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/sidecar/finding"
)

// nodeVRAM is the last that the driver said of each process on each GPU of a
// node.
type nodeVRAM struct {
	samples map[vramKey]vramSample
}

type vramKey struct {
	gpu string
	pid int64
}

type vramSample struct {
	bytes uint64
	tick  uint64
	said  bool // as a foreign process
}

// vramState is what vram_mismatch remembers of an instance.
type vramState struct {
	regions []registered
	since   uint64 // of the last pool or region: samples before it say nothing of it
	// What was said of it last, so that it is said once until it changes.
	poolsSaid  bool
	regionSaid string
	outside    map[uint64]bool // by address; see outside
	opened     map[int64]bool  // by process; see openedByAnother
}

// registered is a region registered for RDMA.
type registered struct {
	base, bytes uint64
	memory      lifecycle.Memory
}

func (l *Ledger) regionRegistered(c *call) {
	if c.f.Src == lifecycle.CUDA {
		l.outside(c)
		return
	}
	r := registered{c.f.Base, c.f.Bytes, c.f.Memory}
	v := &c.inst.vram
	if slices.Contains(v.regions, r) {
		return
	}
	if len(v.regions) >= l.cfg.Limits.Samples {
		l.stats.Forgotten.Samples++
		return
	}
	v.regions = append(v.regions, r)
	v.since = l.tick
}

func (l *Ledger) regionDeregistered(c *call) {
	v := &c.inst.vram
	delete(v.outside, c.f.Base)
	v.regions = slices.DeleteFunc(v.regions, func(r registered) bool {
		return r.base == c.f.Base && r.bytes == c.f.Bytes
	})
}

func (l *Ledger) vramPoolOpened(pl *pool) { pl.inst.vram.since = l.tick }

// vramUsage notes a sample and asks what it contradicts.
func (l *Ledger) vramUsage(c *call) {
	u := c.f.VRAM
	if c.f.Src == lifecycle.CUDA {
		l.openedByAnother(c)
		return
	}
	node := l.vram[c.f.Node]
	if node == nil {
		if len(l.vram) >= l.cfg.Limits.Instances {
			l.stats.Forgotten.Samples++
			return
		}
		node = &nodeVRAM{samples: map[vramKey]vramSample{}}
		l.vram[c.f.Node] = node
	}
	key := vramKey{u.GPU, u.PID}
	had, known := node.samples[key]
	if !known && len(node.samples) >= l.cfg.Limits.Samples {
		l.stats.Forgotten.Samples++
		return
	}
	node.samples[key] = vramSample{bytes: c.f.Bytes, tick: l.tick, said: had.said}
	l.foreignProcess(c, node, key)
	l.vramMismatch(c.inst)
}

// vramMismatch: a pool, or a registered region, is larger than what the driver
// says that the instance's processes hold.
func (l *Ledger) vramMismatch(inst *instance) {
	held, complete := l.vramHeld(inst)
	if !complete {
		return
	}
	l.poolsBeyond(inst, held)
	l.regionsBeyond(inst, held)
}

// poolsBeyond: the pools together are larger than what is held.
func (l *Ledger) poolsBeyond(inst *instance, held uint64) {
	var pools uint64
	var largest *pool
	for _, pl := range inst.pools {
		if pl == nil || pl.Role == "host" {
			continue
		}
		if n := pl.vramBytes(); n > 0 && (largest == nil || cmp.Or(cmp.Compare(n, largest.vramBytes()), cmp.Compare(largest.name, pl.name)) > 0) {
			largest = pl // of equal ones the first by name: pools open in any order
		}
		pools += pl.vramBytes()
	}
	if beyond := pools > held; beyond != inst.vram.poolsSaid {
		if inst.vram.poolsSaid = beyond; beyond {
			l.moreThanHeld(inst, largest, fmt.Sprintf("its pools take %d bytes", pools), held)
		}
	}
}

// regionsBeyond: a region registered in vram is larger than what is held.
func (l *Ledger) regionsBeyond(inst *instance, held uint64) {
	claim := ""
	for _, r := range inst.vram.regions {
		if r.memory == lifecycle.VRAM && r.bytes > held {
			claim = fmt.Sprintf("it registered %d bytes of vram at 0x%x", r.bytes, r.base)
			break
		}
	}
	if claim != inst.vram.regionSaid {
		if inst.vram.regionSaid = claim; claim != "" {
			l.moreThanHeld(inst, nil, claim, held)
		}
	}
}

func (l *Ledger) moreThanHeld(inst *instance, pl *pool, claim string, held uint64) {
	l.accuse(finding.VRAMMismatch, inst, nil, nil, pl).
		say(claim, fmt.Sprintf("the driver says that its processes hold %d bytes", held))
}

// vramBytes is the size of a pool, 0 where it is not said or cannot be.
func (pl *pool) vramBytes() uint64 {
	n := pl.PageBytes * uint64(len(pl.pages))
	if pl.PageBytes == 0 || n/pl.PageBytes != uint64(len(pl.pages)) || n > lifecycle.MaxBytes {
		return 0
	}
	return n
}

// vramHeld sums what the instance's processes hold. complete: it named them,
// and each was sampled since its last pool was opened or region registered.
func (l *Ledger) vramHeld(inst *instance) (held uint64, complete bool) {
	node := l.vram[inst.node]
	pids := inst.pids()
	if node == nil || len(pids) == 0 {
		return 0, false
	}
	for _, pid := range pids {
		found := false
		for key, s := range node.samples {
			if key.pid == pid && s.tick > inst.vram.since {
				held += s.bytes
				found = true
			}
		}
		if !found {
			return 0, false
		}
	}
	return held, true
}

func (i *instance) pids() (pids []int64) {
	for _, pl := range i.pools {
		if pl == nil {
			continue
		}
		for _, pid := range pl.PIDs {
			if !slices.Contains(pids, pid) {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// foreignProcess: somebody who is no engine's process holds memory on a GPU
// that an engine uses.
func (l *Ledger) foreignProcess(c *call, node *nodeVRAM, key vramKey) {
	s := node.samples[key]
	if len(c.inst.pids()) == 0 || s.said || c.f.Bytes == 0 || l.engineProcess(c.f.Node, key.pid) || !l.engineGPU(node, c.f.Node, key.gpu) {
		return
	}
	s.said = true
	node.samples[key] = s
	l.accuse(finding.VRAMMismatch, c.inst, nil, nil, nil).
		say("the GPU is the engine's", fmt.Sprintf("process %d, of no engine, holds %d bytes on GPU %s", key.pid, c.f.Bytes, key.gpu))
}

// engineProcess reports whether an instance of the node names the process.
func (l *Ledger) engineProcess(node string, pid int64) bool {
	for _, inst := range l.insts {
		if inst.node == node && slices.Contains(inst.pids(), pid) {
			return true
		}
	}
	return false
}

// engineGPU reports whether an engine's process was seen on the GPU.
func (l *Ledger) engineGPU(node *nodeVRAM, name, gpu string) bool {
	for key := range node.samples {
		if key.gpu == gpu && l.engineProcess(name, key.pid) {
			return true
		}
	}
	return false
}
