package proven

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/sidecar/probe"
	"github.com/kvwitness/kvwitness/sidecar/source/cuda"
	control "github.com/kvwitness/kvwitness/sidecar/source/pdwire"
	"github.com/kvwitness/kvwitness/sidecar/source/socket"
	"github.com/kvwitness/kvwitness/sidecar/source/tcpxfer"
	"github.com/kvwitness/kvwitness/sidecar/source/ucp"
	"github.com/kvwitness/kvwitness/sidecar/source/verbs"
)

// Bounds of what is remembered.
const (
	MaxInstances = 1024
	MaxPeers     = 256 // of one instance
	MaxRooms     = 1 << 16
	MaxFlows     = 1 << 14 // directions of connections whose messages are told apart
	MaxData      = 1 << 14 // connections that carry transfers, and strangers
	// MaxHeld bounds the bytes of records that wait for the probe to say that it
	// has come so far; beyond it they are taken in as they are.
	MaxHeld = 32 << 20
	// MaxProblems is how often a problem is told; Stats goes on counting.
	MaxProblems = 1000
)

// Layout is what is known of an instance's pool from elsewhere.
type Layout struct {
	Pages      uint32 // 0: not known
	PageTokens int64  // 0: not known
}

// Config of a State. Emit is needed.
type Config struct {
	// Node is the name of this node in facts.
	Node string
	// Emit takes each fact; it is the callee's.
	Emit func(*lifecycle.Fact)
	// Known says what is known of an instance's pool; nil: nothing.
	Known func(inst string) Layout
	// Followed reports whether an instance tells of its own pools, so that the
	// wire need not; nil: none does.
	Followed func(inst string) bool
	// Extent is how many bytes the region of an instance's pool takes that begins at an
	// address, as it says itself; nil: that is not known of any.
	Extent func(inst string, base uint64) (bytes uint64, known bool)
	// Local reports whether an address that an RDMA device goes by is of this node;
	// nil: only loopback is.
	Local verbs.Local
	// Stranger reports whether a process that opened GPU memory of another is neither of
	// that one's family nor allowed to; nil: each that is not watched is. It is asked of
	// processes that are not watched.
	Stranger func(process, owner uint32) bool
	// Problem is told what does not work, in words; nil: nobody is.
	Problem func(text string)
}

// Stats counts what became of frames and messages.
type Stats struct {
	Frames    uint64
	Malformed uint64 // records that could not be read
	Late      uint64 // records of before the probe's last mark
	Overfull  uint64 // times that MaxHeld was reached

	Messages   uint64
	Twice      uint64 // seen at the other end already
	Foreign    uint64 // whose content stayed in the kernel
	Unread     uint64 // of a known shape, and not understood
	Unplaced   uint64 // naming an instance, a room or a connection that is not known
	Transfers  uint64 // WRITEs that arrived
	Mapped     uint64 // of those, into a region
	Pulls      uint64 // READs that were asked for
	Posted     uint64 // RDMA requests, and puts and gets of UCX
	Placed     uint64 // extents of these, in a pool
	CUDACalls  uint64 // of the CUDA driver's memory
	Copies     uint64 // by calls of the CUDA driver
	Uncounted  uint64 // of those, by functions that are not followed, or of pools whose size is not known
	Facts      uint64
	Forgotten  uint64 // beyond a limit
	LostRecord uint64 // records for which a ring had no room

	Instances, Rooms, Flows, Data, Held int // now
	Control                             control.Stats
	Probe                               probe.Counts
}

// State is what is known. It is for one goroutine.
type State struct {
	cfg    Config
	reader *control.Reader
	held   []held
	bytes  int
	mark   probe.Mark
	now    int64 // T of the record at hand
	stats  Stats

	insts     map[string]*instance
	byProcess map[uint32][]*instance
	rooms     map[roomKey]*room
	oldRooms  []roomKey // in the order in which they began
	flows     map[socket.Flow]flow
	data      map[uint64]*dataConn
	clients   map[socket.Flow]uint32 // who writes over a connection
	paths     *verbs.Paths
	ucx       *ucp.Paths
	books     *cuda.Books
	copies    cuda.Copies
	looked    map[memoryAt]uint64   // how much from its address on the CUDA driver had given
	watched   map[uint32]bool       // processes
	distrust  int                   // marks for which a loss of calls of the CUDA driver holds
	asked     map[socket.Flow]*link // whose request a reply over the same connection answers
	// doubted is, for each way, until when records may be of before a loss that was
	// told already: they prove nothing.
	doubted [numWays]int64
	// unfollowed: there were connections beyond those that can be followed.
	unfollowed bool
	told       int // problems
}

// held is a record that waits for its turn.
type held struct {
	t    int64
	kind probe.Kind
	b    []byte
}

// New returns an empty State.
func New(cfg Config) *State {
	if cfg.Known == nil {
		cfg.Known = func(string) Layout { return Layout{} }
	}
	if cfg.Followed == nil {
		cfg.Followed = func(string) bool { return false }
	}
	if cfg.Extent == nil {
		cfg.Extent = func(string, uint64) (uint64, bool) { return 0, false }
	}
	if cfg.Problem == nil {
		cfg.Problem = func(string) {}
	}
	s := &State{
		cfg: cfg, insts: map[string]*instance{}, byProcess: map[uint32][]*instance{}, rooms: map[roomKey]*room{},
		flows: map[socket.Flow]flow{}, data: map[uint64]*dataConn{}, clients: map[socket.Flow]uint32{}, asked: map[socket.Flow]*link{},
	}
	s.paths, s.ucx = verbs.NewPaths(cfg.Local), ucp.NewPaths()
	s.books, s.looked, s.watched = cuda.NewBooks(), map[memoryAt]uint64{}, map[uint32]bool{}
	s.reader = control.NewReader(s.message, s.lostStream)
	return s
}

// Stats returns the counts so far.
func (s *State) Stats() Stats {
	out := s.stats
	out.Instances, out.Rooms, out.Flows, out.Data, out.Held = len(s.insts), len(s.rooms), len(s.flows), len(s.data), s.bytes
	out.Forgotten += s.paths.Forgotten() + s.ucx.Forgotten()
	out.Control, out.Probe = s.reader.Stats(), s.mark.Counts
	return out
}

// Reached is the time until which everything that the probe saw was taken in,
// in ns.
func (s *State) Reached() int64 { return s.mark.T }

// Take takes in one frame of the probe. The error is of a frame that breaks the
// format; the State is as before.
func (s *State) Take(k probe.Kind, payload []byte) error {
	s.stats.Frames++
	switch k {
	case probe.Transfer, probe.Control, probe.Process, probe.Verbs, probe.Sight, probe.UCX, probe.CUDA, probe.CUDASight:
		return s.hold(k, payload)
	case probe.Gone:
		if len(payload) != 8 {
			return fmt.Errorf("read a socket that is gone: %d bytes", len(payload))
		}
		// It is gone once everything that came before was taken in.
		s.held = append(s.held, held{s.latest(), k, slices.Clone(payload)})
		s.bytes += len(payload)
	case probe.Progress:
		m, err := probe.ParseMark(payload)
		if err != nil {
			return err
		}
		s.progress(m)
	case probe.Problem:
		s.problem(string(payload))
	case probe.Hello:
	}
	return nil
}

// latest is the time of the last record that waits.
func (s *State) latest() int64 {
	t := s.mark.T
	for _, h := range s.held {
		t = max(t, h.t)
	}
	return t
}

// hold keeps a record until its turn. All kinds begin with the time.
func (s *State) hold(k probe.Kind, payload []byte) error {
	if len(payload) < 8 {
		s.stats.Malformed++
		return fmt.Errorf("read a record of %d bytes", len(payload))
	}
	t := int64(binary.NativeEndian.Uint64(payload))
	if t < s.mark.T {
		s.stats.Late++
	}
	s.held = append(s.held, held{t, k, slices.Clone(payload)})
	s.bytes += len(payload)
	if s.bytes > MaxHeld {
		s.stats.Overfull++
		s.release(t + 1)
	}
	return nil
}

// progress takes in what the probe says that it has come to.
func (s *State) progress(m probe.Mark) {
	before := s.mark
	s.now = before.T + 1
	s.losses(&before, &m)
	s.mark = m
	s.release(m.T)
	s.trust()
}

// release takes in all records of before a time, in order.
func (s *State) release(until int64) {
	slices.SortStableFunc(s.held, func(a, b held) int { return cmp.Compare(a.t, b.t) })
	n := 0
	for n < len(s.held) && s.held[n].t < until {
		h := s.held[n]
		n++
		s.bytes -= len(h.b)
		s.now = h.t
		s.record(h)
	}
	rest := copy(s.held, s.held[n:])
	clear(s.held[rest:])
	s.held = s.held[:rest]
}

func (s *State) record(h held) {
	switch h.kind {
	case probe.Control:
		r, err := control.Parse(h.b)
		if err != nil {
			s.stats.Malformed++
			return
		}
		switch r.Kind {
		case control.Closed:
			s.flowsEnd(r.Ends)
		case control.Opened:
			// Both ends have greeted before either says anything.
			delete(s.flows, r.Flow())
		case control.Data, control.Cut, control.Joined, control.Blind, control.Refused:
		}
		s.reader.Take(&r)
	case probe.Transfer:
		r, err := tcpxfer.Parse(h.b)
		if err != nil {
			s.stats.Malformed++
			return
		}
		s.transfer(&r)
	case probe.Process:
		p, err := probe.ParseSeen(h.b)
		if err != nil {
			s.stats.Malformed++
			return
		}
		if p.Ended {
			s.processEnded(p.PID)
			return
		}
		s.watched[p.PID] = true
		s.books.Watched(p.PID)
	case probe.Verbs:
		s.verbs(h.b)
	case probe.UCX:
		s.ucxRecord(h.b)
	case probe.Sight:
		a, err := probe.ParseAttached(h.b)
		if err != nil {
			s.stats.Malformed++
			return
		}
		s.attached(&a)
	case probe.CUDA:
		s.cuda(h.b)
	case probe.CUDASight:
		a, err := probe.ParseAttached(h.b)
		if err != nil {
			s.stats.Malformed++
			return
		}
		s.driverAttached(&a)
	case probe.Gone:
		inode := binary.LittleEndian.Uint64(h.b)
		delete(s.data, inode)
		s.reader.Forget(inode)
	case probe.Hello, probe.Progress, probe.Problem:
	}
}

// Follow takes in what a probe says until it ends; the error says how.
func (s *State) Follow(r *probe.Reader) error {
	for {
		k, b, err := r.Next()
		if err != nil {
			return err
		}
		if err := s.Take(k, b); err != nil {
			return err
		}
	}
}

// emit says a fact of now.
func (s *State) emit(f *lifecycle.Fact) {
	f.T, f.Node = s.now, s.cfg.Node
	s.stats.Facts++
	s.cfg.Emit(f)
}
