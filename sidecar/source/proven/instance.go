package proven

import (
	"maps"
	"net"
	"net/netip"
	"slices"
	"strconv"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
	wire "github.com/kvwitness/kvwitness/engine/pdwire"
	"github.com/kvwitness/kvwitness/sidecar/source/socket"
)

// instance is an engine process, or a rank of one, as the wire names it.
type instance struct {
	name    string
	port    uint16
	host    netip.Addr // not valid: known by a name
	process uint32     // 0: not known
	pools   []pool     // as registered
	opened  bool
	given   bool   // it was looked whether they are of what the CUDA driver gave
	staged  bool   // what is written goes by a staging buffer
	spans   []span // the memory of its pools, in order
	exact   []span // the same, where it is known to its end; nil: it is not looked yet, or not known
	copied  Copied
	links   map[string]*link // to it, by the peer that writes
	out     map[string]*link // from it, by the instance that it writes to
}

// pool is one registered pool.
type pool struct {
	name    string
	guessed bool // how many pages it has, at most
	lifecycle.PoolSpec
}

// link is what is known of one peer's way into an instance.
type link struct {
	to, from *instance
	session  string     // where the peer's bytes go
	at       netip.Addr // of the session
	ways     [numWays]sight
	poster   uint32 // the process that hands RDMA requests to its devices
	// open are the rooms of which the peer was asked to write and has not said the end.
	open map[string]bool
	// severed: queue pairs that led here were destroyed, and it is not said yet whether
	// the peer is gone.
	severed bool
	// unplaced are queue pairs and endpoints over which bytes may have come in, and why it is not
	// known that they did.
	unplaced map[uint64]string
}

// way is how bytes come into an instance.
type way uint8

const (
	overTCP way = iota
	overRDMA
	numWays
)

func (w way) source() lifecycle.Src {
	return [numWays]lifecycle.Src{overTCP: lifecycle.TCP, overRDMA: lifecycle.RDMA}[w]
}

// sight is what is seen of one way.
type sight struct {
	used    bool // bytes came over it
	covered bool
	said    int64  // when that was declared last
	told    string // why it is not, as it was said
}

// room is a handoff that was asked for.
type room struct {
	to    *instance
	peers []*instance // that were asked to write
	pool  string
}

type roomKey struct{ room, to string }

// Xfer is the id of a transfer that the wire does not name: there is one in each
// room for each pair of instances.
const Xfer = "wire"

func join(a wire.Address) string { return net.JoinHostPort(a.Host, strconv.Itoa(int(a.Port))) }

// instance finds an instance or begins one; nil: there are too many.
func (s *State) instance(name string) *instance {
	if i := s.insts[name]; i != nil {
		return i
	}
	if len(s.insts) >= MaxInstances || len(name) > lifecycle.MaxID {
		s.stats.Forgotten++
		return nil
	}
	i := &instance{name: name, links: map[string]*link{}, out: map[string]*link{}}
	if a, err := netip.ParseAddrPort(name); err == nil {
		i.host = a.Addr().Unmap()
	}
	if _, port, err := net.SplitHostPort(name); err == nil {
		n, _ := strconv.ParseUint(port, 10, 16)
		i.port = uint16(n)
	}
	s.insts[name] = i
	return i
}

// runsIn notes which process an instance is. A process may be several.
func (s *State) runsIn(i *instance, process uint32) {
	if i.process == process || process == 0 {
		return
	}
	s.leave(i)
	i.process = process
	s.byProcess[process] = append(s.byProcess[process], i)
	s.memoryOf(i)
}

func (s *State) leave(i *instance) {
	all := slices.DeleteFunc(s.byProcess[i.process], func(o *instance) bool { return o == i })
	if len(all) == 0 {
		delete(s.byProcess, i.process)
		return
	}
	s.byProcess[i.process] = all
}

// link finds or makes the way from a peer into an instance; nil: there are too
// many.
func (s *State) link(to, from *instance) *link {
	if to == nil || from == nil {
		return nil
	}
	if l := to.links[from.name]; l != nil {
		return l
	}
	if len(to.links) >= MaxPeers {
		s.stats.Forgotten++
		return nil
	}
	l := &link{to: to, from: from, open: map[string]bool{}, unplaced: map[uint64]string{}}
	to.links[from.name], from.out[to.name] = l, l
	return l
}

// goesTo notes the session where a peer's bytes go.
func (l *link) goesTo(session string) {
	l.session, l.at = session, netip.Addr{}
	if a, err := netip.ParseAddrPort(session); err == nil {
		l.at = a.Addr().Unmap()
	}
}

// at finds the instance that listens at an address: by its name, or, where it is
// known by a host name, by its port and process.
func (s *State) at(a netip.AddrPort, process uint32) *instance {
	if i := s.insts[a.String()]; i != nil {
		return i
	}
	var found *instance
	for _, i := range s.insts {
		if i.port != a.Port() || process != 0 && i.process != 0 && i.process != process {
			continue
		}
		if found != nil {
			return nil
		}
		found = i
	}
	return found
}

// begin remembers who was asked to write for a room.
func (s *State) begin(id string, to, from *instance, pool string) {
	k := roomKey{id, to.name}
	r := s.rooms[k]
	if r == nil {
		if len(s.oldRooms) >= MaxRooms {
			delete(s.rooms, s.oldRooms[0])
			s.oldRooms = s.oldRooms[1:]
			s.stats.Forgotten++
		}
		r = &room{to: to, pool: pool}
		s.rooms[k] = r
		s.oldRooms = append(s.oldRooms, k)
	}
	if !slices.Contains(r.peers, from) && len(r.peers) < MaxPeers {
		r.peers = append(r.peers, from)
	}
}

// writerOf is which of a room's peers speaks over a flow: the one whose process
// sent it, the only one, or the only one of that host.
func (s *State) writerOf(r *room, f socket.Flow, sender uint32) *instance {
	if len(r.peers) == 1 {
		return r.peers[0]
	}
	var found *instance
	for _, p := range r.peers {
		host, _, _ := net.SplitHostPort(p.name)
		if sender != 0 && p.process == sender {
			return p
		}
		if host != f.From.Addr().String() || sender != 0 && p.process != 0 {
			continue
		}
		if found != nil {
			return nil
		}
		found = p
	}
	return found
}

// processEnded ends what ran in a process: nothing more of it can write, and its
// pools are gone.
func (s *State) processEnded(process uint32) {
	for _, dead := range slices.Clone(s.byProcess[process]) {
		for _, other := range s.sorted() {
			if other == dead {
				continue
			}
			if l := other.links[dead.name]; l != nil {
				s.emit(&lifecycle.Fact{Inst: other.name, Src: lifecycle.Wire, Ev: lifecycle.PeerGone, Peer: dead.name})
				delete(other.links, dead.name)
			}
			delete(other.out, dead.name)
			if dead.links[other.name] != nil {
				s.emit(&lifecycle.Fact{Inst: other.name, Src: lifecycle.Wire, Ev: lifecycle.PeerGone, Peer: dead.name})
			}
		}
		s.closePools(dead)
		s.leave(dead)
		delete(s.insts, dead.name)
	}
	s.paths.Ended(process)
	s.ucx.Gone(process)
	s.books.Ended(process)
	delete(s.watched, process)
	maps.DeleteFunc(s.looked, func(m memoryAt, _ uint64) bool { return m.process == process })
	for inode, c := range s.data {
		if c.process == process {
			delete(s.data, inode)
		}
	}
	for f, p := range s.clients {
		if p == process {
			delete(s.clients, f)
		}
	}
}

// sorted are all instances by name, so that facts come in the same order in
// every run.
func (s *State) sorted() []*instance {
	names := make([]string, 0, len(s.insts))
	for name := range s.insts {
		names = append(names, name)
	}
	slices.Sort(names)
	out := make([]*instance, len(names))
	for i, name := range names {
		out[i] = s.insts[name]
	}
	return out
}

// peers are the names of those who may write into an instance, in order.
func peers(i *instance) []string {
	names := make([]string, 0, len(i.links))
	for name := range i.links {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
