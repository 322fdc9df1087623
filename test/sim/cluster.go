package sim

import (
	"fmt"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
)

type role uint8

const (
	both role = iota
	prefill
	decode
)

var roleNames = [...]string{both: "unified", prefill: "prefill", decode: "decode"}

// node is a machine with a clock of its own.
type node struct {
	name   string
	offset int64 // its clock minus the simulation's
	drift  int64 // the part of offset that clock_offset gets wrong
}

func (n *node) clock(now int64) int64 { return now + n.offset + n.drift }

// instance is one engine process, or rank of it.
type instance struct {
	s         *Sim
	name      string
	node      *node
	role      role
	worker    int
	rank      int
	epoch     uint64
	opened    int64
	engine    bool // it has a lifecycle stream
	silent    bool // nothing is known of it but its name
	muted     bool // the sidecar has not come yet
	attached  bool // it came later than the instance
	written   bool // its stream promises pages_written
	steps     bool
	staged    bool
	unnamed   bool          // it does not say what its transfers target
	sight     lifecycle.Src // what sees its bytes
	observed  bool
	perPeer   bool
	covered   bool // its coverage has been declared in this epoch
	seqs      [lifecycle.NumSrc]uint64
	pools     []*pool
	cache     []*entry
	pid       int64
	top       uint64          // the first address that no region has
	targeted  map[pageRef]int // how many transfers ever named a page, where a fault is put in
	scratched bool            // it reserves pages for nobody
	sampled   bool            // the driver has been asked before
}

const stepTime = 3 * ms

func (in *instance) step() int64 { return 1 + (in.s.now-in.opened)/stepTime }

// layout is the shape of the model's cache, equal for all instances.
type layout struct {
	pageTokens int64
	layers     uint32
	parts      []string
	heads      int64  // of all ranks together
	headBytes  uint64 // of one token, layer and part
	stridePad  uint64
	window     int64 // tokens; 0: no window pool
	state      bool
	aux        bool
	host       bool
	nulls      uint32
	context    int64
	senders    int // ranks
	receivers  int
	dummy      bool // the last sender, or receiver, has nothing to do
}

func (s *Sim) draw() {
	m, l := s.Mix, &s.layout
	l.pageTokens = pick(s, []int64{1, 4, 16, 64})
	l.layers = uint32(1 + s.upTo(1))
	l.parts = pick(s, [][]string{{"kv"}, {"k", "v"}})
	l.heads = 4
	l.headBytes = uint64(max(1, 1024/l.pageTokens/4)) * 4
	if s.chance(m.BigPages) {
		l.headBytes = uint64(pick(s, []int64{64 << 10, 96 << 10, 160 << 10}) / l.pageTokens / 4)
	}
	l.stridePad = pick(s, []uint64{0, 0, 256})
	if s.chance(m.Window) {
		l.window = 2 * l.pageTokens
	}
	l.state, l.aux, l.host = s.chance(m.StatePool), s.chance(m.Aux), s.chance(m.Host)
	if s.chance(m.NullPages) {
		l.nulls = uint32(1 + s.upTo(2))
	}
	l.senders, l.receivers = 1, 1
	if s.chance(m.TwoSenders) {
		l.senders = 2
	}
	if s.chance(m.TwoReceivers) {
		l.receivers = 2
	}
	l.dummy = l.senders != l.receivers && s.chance(m.Dummy)
}

// build makes nodes and instances; nothing is said yet.
func (s *Sim) build() {
	s.draw()
	m := s.Mix
	for i := range max(1, m.Nodes) {
		n := &node{name: fmt.Sprintf("n%d", i)}
		if m.Nodes > 1 && s.chance(0.7) {
			n.offset = s.between(-400*ms, 400*ms)
			n.drift = s.between(-skew, skew)
		}
		s.nodes = append(s.nodes, n)
	}
	wire, silent, same := s.chance(m.WireOnly), s.chance(m.SilentSender), s.chance(m.SameAddresses)
	s.sameAddresses = same
	add := func(r role, workers, ranks int) {
		for w := range workers {
			for k := range ranks {
				in := s.newInstance(r, w, k, same)
				in.engine = r == both || !wire
				in.silent = r == prefill && wire && silent
				if r == prefill && !in.silent {
					in.engine = true
				}
			}
		}
	}
	add(both, m.Unified, 1)
	add(prefill, m.Prefills, s.layout.senders)
	add(decode, m.Decodes, s.layout.receivers)
	s.layout.context = s.smallest() * s.layout.pageTokens
	for _, in := range s.instances {
		if s.chance(0.7) {
			in.pool("kv").spec.ContextTokens = lifecycle.Some(s.layout.context)
		}
	}
}

func (s *Sim) newInstance(r role, worker, rank int, same bool) *instance {
	m := s.Mix
	in := &instance{s: s, targeted: map[pageRef]int{}, role: r, worker: worker, rank: rank, name: fmt.Sprintf("%s-%d", roleNames[r], worker)}
	if r == prefill && s.layout.senders > 1 || r == decode && s.layout.receivers > 1 {
		in.name += fmt.Sprintf("/tp%d", rank)
	}
	in.node = pick(s, s.nodes)
	in.pid = int64(1000 + len(s.instances))
	in.written = s.chance(m.PromisesWritten)
	in.steps = s.chance(m.Steps)
	in.observed = r == decode && s.chance(m.Observed)
	in.perPeer = s.chance(m.PerPeer)
	in.staged = r == decode && s.chance(m.Staged)
	in.sight = lifecycle.RDMA
	if s.chance(m.OverTCP) {
		in.sight = lifecycle.TCP
	}
	in.unnamed = r == decode && !in.staged && s.chance(m.Unnamed)
	in.top = 0x7f0000000000
	if !same {
		in.top += uint64(len(s.instances)) << 36
	}
	in.addPools()
	s.instances = append(s.instances, in)
	return in
}

// smallest is the number of pages of the smallest pool that owes all.
func (s *Sim) smallest() int64 {
	least := int64(1 << 40)
	for _, in := range s.instances {
		for _, p := range in.pools {
			if p.spec.Owes == lifecycle.OwesAll {
				least = min(least, int64(p.spec.Pages)-int64(p.spec.NullIDs.Pages()))
			}
		}
	}
	return least
}

// largest is the number of pages of the largest kv pool of that role.
func (s *Sim) largest(r role) int64 {
	most := int64(0)
	for _, in := range s.instances {
		if kv := in.pool("kv"); in.role == r {
			most = max(most, int64(kv.spec.Pages)-int64(kv.spec.NullIDs.Pages()))
		}
	}
	return most
}

// target notes pages that a transfer names.
func (in *instance) target(p *pool, pages []uint32) {
	if in.s.Strike == nil {
		return
	}
	for _, id := range pages {
		in.targeted[pageRef{p, id}]++
	}
}

// workers returns the ranks of a random worker of that role.
func (s *Sim) workers(r role, worker int) (ranks []*instance) {
	for _, in := range s.instances {
		if in.role == r && in.worker == worker {
			ranks = append(ranks, in)
		}
	}
	return ranks
}

// open says what is known at the start and begins what goes on beside the
// requests.
func (s *Sim) open() {
	s.now = int64(1e9)
	for _, n := range s.nodes {
		if n.offset != 0 {
			f := &lifecycle.Fact{T: n.clock(s.now), Node: n.name, Src: lifecycle.Sidecar, Ev: lifecycle.ClockOffset, NS: n.offset, Error: skew}
			s.arriving.push(s.now, f)
			s.hard(11, "two nodes with clock_offset")
		}
	}
	for _, in := range s.instances {
		in.muted = s.chance(s.Mix.Attach)
		in.open(lifecycle.SinceStart)
		if in.muted {
			s.spawn(s.now+s.between(20*ms, 200*ms), func(*proc) { in.attach() })
		}
		if s.chance(s.Mix.Restarts) {
			s.spawn(s.now+s.between(30*ms, 300*ms), func(*proc) { in.restart() })
		}
		in.beside()
		in.scratch()
	}
}

// open says which pools the instance has and how well it is seen.
func (in *instance) open(since lifecycle.Since) {
	if since == lifecycle.SinceStart {
		in.opened = in.s.now // its steps go on while somebody attaches
	}
	if in.silent {
		return
	}
	in.together(func() {
		for _, p := range in.pools {
			spec := p.spec
			spec.Since = since
			in.opensWrong(p, &spec)
			f := lifecycle.Fact{Ev: lifecycle.PoolOpened, Pool: p.name, Spec: &spec}
			if in.engine {
				in.say(f)
			} else {
				in.tell(lifecycle.Wire, in.node, f)
			}
		}
	})
	in.cover()
}

// cover declares that the bytes that come in are all seen.
func (in *instance) cover() {
	if !in.observed {
		return
	}
	in.covered = true
	f := lifecycle.Fact{Ev: lifecycle.SourceCoverage, Of: in.sight, Complete: true}
	if !in.perPeer {
		in.tell(lifecycle.Sidecar, in.node, f)
		return
	}
	for _, peer := range in.s.instances {
		if peer.role == prefill {
			f.Peer = peer.name
			in.tell(lifecycle.Sidecar, in.node, f)
		}
	}
}

// attach is the moment at which the sidecar comes to a running instance.
func (in *instance) attach() {
	in.muted, in.attached = false, true
	for _, p := range in.pools {
		for i := range p.pages {
			p.pages[i].unknown = true
			for _, h := range p.pages[i].holders {
				h.r.blurred = true
			}
		}
	}
	for _, r := range in.s.alive {
		if r.touches(in) {
			r.blurred = true
		}
	}
	in.open(lifecycle.SinceAttach)
	in.s.hard(10, "a pool opened since attach")
}

// restart ends everything on the instance and begins a new epoch.
func (in *instance) restart() {
	in.epoch++
	in.seqs = [lifecycle.NumSrc]uint64{}
	in.covered = false
	in.cache = nil
	for _, r := range in.s.alive {
		if r.touches(in) {
			r.blurred = true
		}
	}
	for _, p := range in.pools {
		p.reset()
	}
	in.s.now += 1e6 // a process takes longer to start than clocks are apart
	in.open(lifecycle.SinceStart)
	in.s.hard(5, "an instance that restarted under its requests")
}
