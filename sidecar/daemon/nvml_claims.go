package daemon

import (
	"context"
	"math"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/engine/lifecycle/stream"
	"github.com/kvwitness/kvwitness/engine/lifecycle/subscribe"
	"github.com/kvwitness/kvwitness/sidecar/source/follow"
	"github.com/kvwitness/kvwitness/sidecar/source/nvml"
)

// Bounds of what is remembered for the driver's sake.
const (
	maxOpenings = 1 << 10 // instances
	maxOpened   = 1 << 8  // pools of one
	maxRegions  = 1 << 12 // of one
	// dialTimeout is how long an engine's socket may take to be connected to.
	dialTimeout = time.Second
)

// openings are the pools and registered regions of this node's instances, as far as
// they lie in GPU memory. note is for the judge's goroutine and does little.
type openings struct {
	node string

	mu  sync.Mutex
	all map[string]*opening
}

type opening struct {
	epoch   lifecycle.Opt[uint64]
	since   int64 // ns, when the last pool or region was told
	pools   map[string]opened
	regions map[uint64]uint64 // bytes by address

	dialled int64 // since, when it was last asked who serves its socket
	serving int
}

type opened struct {
	pids     []int64
	bytes    uint64  // 0: not said, or host memory
	perToken float64 // bytes; 0: as bytes
	context  int64   // tokens that are declared with it; 0: none
}

func newOpenings(node string) *openings { return &openings{node: node, all: map[string]*opening{}} }

// note takes in what opens and closes memory.
func (o *openings) note(f *lifecycle.Fact) {
	switch f.Ev {
	case lifecycle.PoolOpened, lifecycle.PoolClosed, lifecycle.RegionRegistered, lifecycle.RegionDeregistered:
	default:
		return
	}
	if f.Node != "" && f.Node != o.node || f.Src == lifecycle.CUDA { // what the driver gave is no claim
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	i := o.of(f)
	if i == nil {
		return
	}
	switch f.Ev {
	case lifecycle.PoolOpened:
		if _, known := i.pools[f.Pool]; !known && len(i.pools) < maxOpened && f.Spec != nil {
			i.pools[f.Pool] = openedAs(f.Spec)
			i.since = now()
		}
	case lifecycle.PoolClosed:
		delete(i.pools, f.Pool)
	case lifecycle.RegionRegistered:
		if f.Memory == lifecycle.VRAM && len(i.regions) < maxRegions {
			i.regions[f.Base] = f.Bytes
			i.since = now()
		}
	case lifecycle.RegionDeregistered:
		delete(i.regions, f.Base)
	}
}

// of is what is open of a fact's instance; another epoch begins anew. o.mu is held.
func (o *openings) of(f *lifecycle.Fact) *opening {
	i := o.all[f.Inst]
	if i != nil && (!f.Epoch.Has || i.epoch == f.Epoch) {
		return i
	}
	if i == nil && len(o.all) == maxOpenings {
		return nil
	}
	i = &opening{epoch: f.Epoch, pools: map[string]opened{}, regions: map[uint64]uint64{}}
	o.all[f.Inst] = i
	return i
}

func openedAs(s *lifecycle.PoolSpec) opened {
	o := opened{pids: s.PIDs, bytes: poolBytes(s), context: s.ContextTokens.Or(0)}
	if o.bytes > 0 && s.PageTokens > 0 {
		o.perToken = float64(s.PageBytes) / float64(s.PageTokens)
	}
	return o
}

// capacity is how many tokens an instance's pools could hold at most, by the bytes that
// it could have of its devices, and the longest context that it declares. ok is whether
// its pools say what a token takes.
func (o *openings) capacity(inst string, bytes uint64) (tokens float64, context int64, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	i := o.all[inst]
	if i == nil || bytes == 0 {
		return 0, 0, false
	}
	perToken := 0.0
	for _, p := range i.pools {
		perToken += p.perToken
		context = max(context, p.context)
	}
	return math.Floor(float64(bytes) / perToken), context, perToken > 0
}

// poolBytes is what a pool takes of a GPU's memory, 0 where that is not said.
func poolBytes(s *lifecycle.PoolSpec) uint64 {
	n := s.PageBytes * uint64(s.Pages)
	if s.Role == "host" || s.PageBytes == 0 || n/s.PageBytes != uint64(s.Pages) || n > lifecycle.MaxBytes {
		return 0
	}
	return n
}

// gpuClaims are the instances of this node; open reports that there are engines of which
// it is not known which they are.
func (d *Daemon) gpuClaims(ctx context.Context) (all []nvml.Claim, open bool) {
	o := d.gpus.openings
	for _, s := range d.statuses() {
		if s.Instance == "" {
			open = true
			continue
		}
		all = append(all, nvml.Claim{Instance: s.Instance, Live: s.State == subscribe.Live, Used: used(&s)})
	}
	for i := range all {
		c := &all[i]
		o.mu.Lock()
		of := o.all[c.Instance]
		if of != nil {
			of.tell(c)
		}
		ask := of != nil && of.dialled != of.since
		o.mu.Unlock()
		if ask {
			pid := d.servedBy(ctx, c.Instance)
			o.mu.Lock()
			of.serving, of.dialled = pid, c.Since
			o.mu.Unlock()
			c.Serving = pid
		}
	}
	return all, open
}

// tell says what is open. The lock of the openings is held.
func (i *opening) tell(c *nvml.Claim) {
	var pools, region uint64
	for _, p := range i.pools {
		pools += p.bytes
		for _, pid := range p.pids {
			if !slices.Contains(c.PIDs, pid) {
				c.PIDs = append(c.PIDs, pid)
			}
		}
	}
	for _, bytes := range i.regions {
		region = max(region, bytes)
	}
	slices.Sort(c.PIDs)
	c.Bytes, c.Since, c.Serving = max(pools, region), i.since, i.serving
}

// used grows whenever an engine says that pages were used.
func used(s *follow.Status) uint64 {
	p := &s.Said.Pages
	n := p.ReservedLive + p.ReservedCached + p.Targeted + p.Read + p.Shared + p.Cached
	for _, w := range p.Written {
		n += w
	}
	return n
}

// servedBy is the process that serves an instance's socket, as the kernel says; 0: it
// is no socket of this node, or of another process namespace.
func (d *Daemon) servedBy(ctx context.Context, inst string) int {
	s, known := d.stream(inst)
	if !known {
		return 0
	}
	endpoint := s.Endpoint
	if endpoint == "" {
		if s.Dir == "" {
			s.Dir = stream.DefaultDir()
		}
		endpoint, _, _ = stream.Endpoints(s.Dir, inst)
	}
	path, is := strings.CutPrefix(endpoint, "ipc://")
	if !is {
		return 0
	}
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "unix", path)
	if err != nil {
		return 0
	}
	defer conn.Close()
	raw, err := conn.(*net.UnixConn).SyscallConn()
	if err != nil {
		return 0
	}
	pid := 0
	_ = raw.Control(func(fd uintptr) {
		if cred, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
			pid = int(cred.Pid)
		}
	})
	return pid
}
