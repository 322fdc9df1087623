package oracle

import (
	"cmp"
	"maps"
	"math"
	"math/bits"
	"slices"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/sidecar/finding"
)

// process is what the driver said last of one process on one GPU.
type process struct {
	node, gpu string
	pid       int64
	about     string // the instance that the fact was about
	bytes     uint64
	at        int64
}

// region is a registered piece of memory.
type region struct {
	base, bytes uint64
	memory      lifecycle.Memory
	at          int64
}

// vramUsage applies vram_usage, and compares it with what its instance has.
func (o *oracle) vramUsage(e *entry) {
	if e.VRAM == nil {
		return
	}
	if e.Src == lifecycle.CUDA {
		o.openedBy(e)
		return
	}
	now := process{e.Node, e.VRAM.GPU, e.VRAM.PID, e.Inst, e.Bytes, e.a}
	o.processes = slices.DeleteFunc(o.processes, func(p process) bool {
		return p.node == now.node && p.gpu == now.gpu && p.pid == now.pid
	})
	o.processes = append(o.processes, now)
	i := o.inst(e.Inst)
	c := o.charges()
	o.poolsTooLarge(e, i, c)
	o.regionsTooLarge(e, i, c)
	o.foreignProcesses(e, i, c)
	o.say(c)
}

// poolsTooLarge: the pools together are larger than all that the instance's
// processes hold (R26 a). The largest is named.
func (o *oracle) poolsTooLarge(e *entry, i *instance, c *charges) {
	held, sampled := o.held(i)
	if !sampled {
		return
	}
	total, largest, most := uint64(0), "", uint64(0)
	for _, p := range i.sortedPools() {
		if p.spec.Role == "host" || p.spec.Role == "aux" {
			continue // not in device memory
		}
		bytes := product(uint64(p.spec.Pages), p.spec.PageBytes)
		total = sum(total, bytes)
		if bytes > most {
			largest, most = p.name, bytes
		}
	}
	if total > held && !i.oversize {
		ch := c.of(finding.VRAMMismatch, e.Fact, party{inst: i.name}, largest)
		ch.claim, ch.observation = "the pools are in device memory", "its processes hold less"
	}
	i.oversize = total > held
}

func (o *oracle) regionsTooLarge(e *entry, i *instance, c *charges) {
	held, sampled := o.held(i)
	if !sampled {
		return
	}
	for _, r := range slices.SortedFunc(maps.Keys(i.regions), func(a, b region) int {
		return cmp.Or(cmp.Compare(a.base, b.base), cmp.Compare(a.bytes, b.bytes))
	}) {
		if r.memory != lifecycle.VRAM {
			continue
		}
		if r.bytes > held && !i.regions[r] {
			ch := c.of(finding.VRAMMismatch, e.Fact, party{inst: i.name}, "")
			ch.claim, ch.observation = "device memory was registered", "its processes hold less"
		}
		i.regions[r] = r.bytes > held
	}
}

// foreignProcesses: somebody else has memory on a GPU that a process of the
// instance was seen on (R26 b).
func (o *oracle) foreignProcesses(e *entry, i *instance, c *charges) {
	own := i.pids()
	for _, mine := range o.processes {
		if !own[mine.pid] || mine.node != e.Node {
			continue
		}
		for _, other := range o.processes {
			if other.node != mine.node || other.gpu != mine.gpu || other.bytes == 0 || i.alien[other.pid] || o.named(other) {
				continue
			}
			i.alien[other.pid] = true
			ch := c.of(finding.VRAMMismatch, e.Fact, party{inst: i.name}, "")
			ch.claim, ch.observation = "the instance named its processes", "another one holds memory on their GPU"
		}
	}
}

// named: some instance of the process's node says that it is its own.
func (o *oracle) named(p process) bool {
	for _, i := range o.instOrder {
		if i.nodes[p.node] && i.pids()[p.pid] {
			return true
		}
	}
	return false
}

// held is what all processes of an instance hold, if each was sampled since
// the last of its pools was opened and the last region registered.
func (o *oracle) held(i *instance) (bytes uint64, sampled bool) {
	own, since := i.pids(), i.openedAt()
	for pid := range own {
		any := false
		for _, p := range o.processes {
			if p.pid == pid && (p.node == i.node || p.about == i.name) {
				bytes = sum(bytes, p.bytes)
				any = any || p.at >= since
			}
		}
		if !any {
			return 0, false
		}
	}
	return bytes, len(own) > 0
}

// pids are the processes that the pools of an instance name.
func (i *instance) pids() map[int64]bool {
	pids := map[int64]bool{}
	for _, p := range i.pools {
		for _, pid := range p.spec.PIDs {
			pids[pid] = true
		}
	}
	return pids
}

// openedAt is when the last of the instance's pools was opened, or the last of
// its regions registered.
func (i *instance) openedAt() (at int64) {
	at = math.MinInt64
	for _, p := range i.pools {
		at = max(at, p.openedAt)
	}
	for r := range i.regions {
		at = max(at, r.at)
	}
	return at
}

func product(a, b uint64) uint64 {
	high, low := bits.Mul64(a, b)
	if high > 0 {
		return math.MaxUint64
	}
	return low
}

func sum(a, b uint64) uint64 {
	if a > math.MaxUint64-b {
		return math.MaxUint64
	}
	return a + b
}

// given: the CUDA driver was seen to give so many bytes from an address on; a region in
// device memory that begins there must be no longer (R26 c).
func (o *oracle) given(e *entry) {
	i := o.inst(e.Inst)
	longest, in := uint64(0), ""
	for r := range i.regions {
		if r.memory == lifecycle.VRAM && r.base == e.Base {
			longest = max(longest, r.bytes)
		}
	}
	for _, p := range i.sortedPools() {
		if p.spec.Role == "host" || p.spec.Pages == 0 {
			continue
		}
		for _, r := range p.spec.Regions {
			if n := r.Stride*uint64(p.spec.Pages-1) + r.Bytes; r.Base == e.Base && n > longest {
				longest, in = n, p.name
			}
		}
	}
	if longest > e.Bytes && !i.beyond[e.Base] {
		c := o.charges()
		ch := c.of(finding.VRAMMismatch, e.Fact, party{inst: i.name}, in)
		ch.claim, ch.observation = "memory there is the instance's", "the driver gave it less"
		o.say(c)
	}
	i.beyond[e.Base] = longest > e.Bytes
}

// openedBy: a process of no engine has memory of an instance open (R26 d).
func (o *oracle) openedBy(e *entry) {
	i := o.inst(e.Inst)
	if e.Bytes > 0 && !i.opener[e.VRAM.PID] {
		c := o.charges()
		ch := c.of(finding.VRAMMismatch, e.Fact, party{inst: i.name}, "")
		ch.claim, ch.observation = "the instance's memory is its own", "another process has it open"
		o.say(c)
	}
	i.opener[e.VRAM.PID] = e.Bytes > 0
}

// register and deregister apply the registrations of memory.
func (o *oracle) register(e *entry) {
	if e.Src == lifecycle.CUDA {
		o.given(e)
		return
	}
	o.deregister(e)
	o.inst(e.Inst).regions[region{e.Base, e.Bytes, e.Memory, e.a}] = false
}

func (o *oracle) deregister(e *entry) {
	delete(o.inst(e.Inst).beyond, e.Base)
	maps.DeleteFunc(o.inst(e.Inst).regions, func(r region, _ bool) bool {
		return r.base == e.Base && r.bytes == e.Bytes
	})
}
