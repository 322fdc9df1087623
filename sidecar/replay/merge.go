package replay

import (
	"container/heap"
	"io"
	"time"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
)

// maxNodes is how many nodes' clocks and wall times are kept. The clocks of
// more are taken as they are, which costs order, and so sight, between nodes.
const maxNodes = 1 << 12

// merge gives the facts of several traces in order of time. Within a trace the
// order is the trace's own; of facts at one time those of the earlier named
// trace come first. Times of different nodes are compared less their
// clock_offset, as far as it was said by then.
type merge struct {
	sources []*source
	heads   heads // the next fact of each trace that has one
	begun   bool
	clocks  map[string]int64     // ns, by node
	walls   map[string]time.Time // wall clock at t = 0, by node
}

// head is the next fact of a trace.
type head struct {
	at   int64 // ns
	from int   // which trace
	fact *lifecycle.Fact
}

func newMerge(sources []*source) *merge {
	return &merge{sources: sources, clocks: map[string]int64{}, walls: map[string]time.Time{}}
}

// next returns the next fact, io.EOF after the last one, or why a trace could
// not be read further. A trace is read on only when its last fact has been
// judged, so that the facts before damage come first, and none after it.
func (m *merge) next() (*lifecycle.Fact, error) {
	if err := m.refill(); err != nil {
		return nil, err
	}
	if len(m.heads) == 0 {
		return nil, io.EOF
	}
	return m.heads[0].fact, nil
}

// refill puts a new head in the place of the one that was given last.
func (m *merge) refill() error {
	if m.begun {
		h, err := m.read(m.heads[0].from)
		if err == nil {
			m.heads[0] = h
			heap.Fix(&m.heads, 0)
		} else if err == io.EOF {
			heap.Pop(&m.heads)
			err = nil
		}
		return err
	}
	m.begun = true
	for i := range m.sources {
		h, err := m.read(i)
		if err != nil {
			return err // io.EOF only comes after a fact
		}
		m.heads = append(m.heads, h)
	}
	heap.Init(&m.heads)
	return nil
}

// read takes the next fact of a trace.
func (m *merge) read(i int) (head, error) {
	reader := m.sources[i].reader
	f, err := reader.Next()
	if err != nil {
		return head{}, err
	}
	m.learn(f.Node, reader.Header())
	if _, known := m.clocks[f.Node]; f.Ev == lifecycle.ClockOffset && (known || len(m.clocks) < maxNodes) {
		m.clocks[f.Node] = f.NS
	}
	return head{f.T - m.clocks[f.Node], i, f}, nil
}

// learn keeps the wall clock of the node that a trace was recorded on.
func (m *merge) learn(node string, h lifecycle.Header) {
	if h.Wall == "" || node != h.Node || len(m.walls) >= maxNodes {
		return
	}
	if _, known := m.walls[node]; known {
		return
	}
	if wall, err := time.Parse(time.RFC3339Nano, h.Wall); err == nil {
		m.walls[node] = wall
	}
}

// heads is a heap, the earliest first.
type heads []head

func (h heads) Len() int { return len(h) }
func (h heads) Less(i, j int) bool {
	return h[i].at < h[j].at || h[i].at == h[j].at && h[i].from < h[j].from
}
func (h heads) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *heads) Push(x any)   { *h = append(*h, x.(head)) }

func (h *heads) Pop() any {
	last := len(*h) - 1
	x := (*h)[last]
	*h = (*h)[:last]
	return x
}
