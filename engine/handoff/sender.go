package handoff

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"

	"github.com/kvwitness/kvwitness/engine/backend"
	"github.com/kvwitness/kvwitness/engine/kvcache"
	"github.com/kvwitness/kvwitness/engine/scheduler"
	"github.com/kvwitness/kvwitness/engine/transfer"
	"github.com/kvwitness/kvwitness/kernels/reference"
)

// ErrPeerMemory says that a peer's addresses cannot take this instance's pages.
var ErrPeerMemory = errors.New("the peer's memory does not take these pages")

// Sender carries out transfers of one prefill rank. It is safe for use by any
// goroutines.
type Sender struct {
	Memory *Memory
	// Rank of Ranks writers of each request: it brings its share of the layers.
	Rank, Ranks int
	// Digest says whether a digest goes along.
	Digest bool
	// Sum, if set, hears of the digest of all that goes to a room, before the last of
	// it leaves with the digest. It is keyed by a number drawn for the handoff.
	Sum func(room scheduler.Room, digest uint64)
	// Transposed is the fault of drill layout-mismatch: pages leave token by token,
	// all heads of a token side by side.
	Transposed bool

	mu   sync.Mutex
	sums map[link]*sum
}

type link struct {
	room scheduler.Room
	peer scheduler.Peer
}

// sum is the digest of a handoff so far.
type sum struct {
	key   [2]uint64
	total uint64
}

// Job is one transfer, and where it goes. Position is which page of the prompt
// First is.
type Job struct {
	scheduler.StartTransfer
	To       Addresses
	Writer   transfer.Writer
	Position int
}

// Send carries a job out and returns when nothing of it can read or write any
// more; fault is a source page that was not what its request takes it for. With
// transfer.ErrUndrained that could not be shown, and the peer must be cut off.
func (s *Sender) Send(ctx context.Context, j Job) (fault *kvcache.TagFault, err error) {
	if err := s.fits(j); err != nil {
		return nil, err
	}
	staged, fault := s.stage(j)
	if fault != nil {
		s.Forget(j.Room, j.Peer)
		return fault, nil
	}
	pieces := s.pieces(j, staged)
	if j.Last {
		s.tell(j)
		s.Forget(j.Room, j.Peer)
	}
	return nil, j.Writer.Write(ctx, pieces...)
}

func (s *Sender) fits(j Job) error {
	regions := s.Memory.Pages.Regions()
	if len(j.To.Pages) != len(regions) || j.To.Stride != uint64(regions[0].PageBytes) {
		return fmt.Errorf("send to %s: %d regions of %d bytes a page, ours are %d of %d: %w",
			j.Peer, len(j.To.Pages), j.To.Stride, len(regions), regions[0].PageBytes, ErrPeerMemory)
	}
	if len(j.To.Tags) > 0 && len(j.To.Tags) != len(s.Memory.Pages.Tags()) {
		return fmt.Errorf("send to %s: tags of %d layers, ours are %d: %w", j.Peer, len(j.To.Tags), len(s.Memory.Pages.Tags()), ErrPeerMemory)
	}
	return nil
}

// Forget drops the digest of a handoff.
func (s *Sender) Forget(room scheduler.Room, peer scheduler.Peer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.sums, link{room, peer})
}

// region is a staged copy of the source pages in one region.
type region struct {
	index int
	bytes []byte
}

// stage copies the source between two checks of its tags, and adds the copy to the
// handoff's digest.
func (s *Sender) stage(j Job) (out []region, fault *kvcache.TagFault) {
	m := s.Memory
	m.Lock()
	defer m.Unlock()
	if fault = s.checkSource(j, m.Pages.Written); fault != nil {
		return nil, fault
	}
	regions := m.Pages.Regions()
	first, end := layersOf(s.Rank, s.Ranks, len(m.Pages.Tags()))
	for i := range regions {
		r := &regions[i]
		if r.Layer < first || r.Layer >= end {
			continue
		}
		staged := region{i, make([]byte, 0, len(j.Source)*r.PageBytes)}
		for _, p := range j.Source {
			staged.bytes = append(staged.bytes, r.Page(int(p))...)
		}
		out = append(out, staged)
	}
	if fault = s.checkSource(j, m.Pages.Rewritten); fault != nil {
		return nil, fault
	}
	for _, r := range out {
		s.finish(j, r)
	}
	return out, nil
}

// checkSource compares the source's written tags with the generations that the
// request holds, in every layer that leaves. read is Written before the source is
// copied, Rewritten after.
func (s *Sender) checkSource(j Job, read func(layer, page int) backend.Tag) (fault *kvcache.TagFault) {
	if !j.CheckTags {
		return nil
	}
	first, end := layersOf(s.Rank, s.Ranks, len(s.Memory.Pages.Tags()))
	for i, p := range j.Source {
		for layer := first; layer < end; layer++ {
			written := read(layer, int(p))
			if written == backend.Tag(j.SourceGens[i]) {
				continue
			}
			if fault == nil {
				fault = &kvcache.TagFault{Page: p, Index: i, Want: j.SourceGens[i], HandedOut: j.SourceGens[i], Written: kvcache.Gen(written)}
			}
			fault.Faults++
			break
		}
	}
	return fault
}

// finish clears the rows that hold no token of the request, and digests.
func (s *Sender) finish(j Job, staged region) {
	l, r := s.Memory.Pages.Layout(), s.Memory.Pages.Regions()[staged.index]
	sum := s.sum(j)
	for i := range j.Source {
		page, tokens := staged.bytes[i*r.PageBytes:][:r.PageBytes], l.PageTokens
		if i == len(j.Source)-1 {
			tokens = j.Tokens
			for h := range l.KVHeads {
				clear(l.Head(page, h)[tokens*l.RowBytes():])
			}
		}
		if s.Digest {
			d := l.Digest(page, tokens, reference.Binding{
				Key: sum.key, Position: j.Position + i, Layer: r.Layer, Part: r.Part, Generation: uint64(j.TargetGens[i]),
			})
			s.mu.Lock()
			sum.total += d
			s.mu.Unlock()
		}
		if s.Transposed {
			transpose(l, page)
		}
	}
}

// transpose lays a page out token by token instead of head by head.
func transpose(l reference.Layout, page []byte) {
	out := make([]byte, 0, len(page))
	for t := range l.PageTokens {
		for h := range l.KVHeads {
			out = append(out, l.Head(page, h)[t*l.RowBytes():][:l.RowBytes()]...)
		}
	}
	copy(page, out)
}

// tell says the digest of a handoff, if one goes along.
func (s *Sender) tell(j Job) {
	if s.Sum == nil || !s.Digest || j.To.Slots == 0 {
		return
	}
	sum := s.sum(j)
	s.mu.Lock()
	total := sum.total
	s.mu.Unlock()
	s.Sum(j.Room, total)
}

func (s *Sender) sum(j Job) *sum {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := link{j.Room, j.Peer}
	if s.sums == nil {
		s.sums = map[link]*sum{}
	}
	if s.sums[k] == nil {
		var b [16]byte
		_, _ = rand.Read(b[:]) // never fails
		s.sums[k] = &sum{key: [2]uint64{binary.LittleEndian.Uint64(b[:]), binary.LittleEndian.Uint64(b[8:])}}
	}
	return s.sums[k]
}
