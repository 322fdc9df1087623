package handoff

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/kvwitness/kvwitness/engine/backend"
	"github.com/kvwitness/kvwitness/engine/backend/cpu"
	"github.com/kvwitness/kvwitness/engine/kvcache"
	"github.com/kvwitness/kvwitness/engine/model"
	"github.com/kvwitness/kvwitness/engine/scheduler"
	"github.com/kvwitness/kvwitness/engine/transfer/tcp"
	"github.com/kvwitness/kvwitness/kernels/reference"
)

const pageTokens = 16

// half is one instance's memory.
func half(t *testing.T, ranks int) *Memory {
	t.Helper()
	b, err := cpu.New(model.NewInduction(), cpu.Config{Pages: 9, PageTokens: pageTokens, DType: reference.Float32})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	m, err := NewMemory(b, 4, ranks, nil)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// pair is a sender of each rank and a receiver that counts.
type pair struct {
	t       *testing.T
	from    *Memory
	to      *Memory
	senders []*Sender
	clients []*tcp.Client
	arrived []scheduler.Arrived
	summed  uint64 // what the senders say, added up
	sums    int
}

func newPair(t *testing.T, ranks int) *pair {
	p := &pair{t: t, from: half(t, ranks), to: half(t, ranks)}
	r := rand.New(rand.NewPCG(1, 2))
	for i := range p.from.Pages.Regions() {
		region := &p.from.Pages.Regions()[i]
		for j := range region.Bytes {
			region.Bytes[j] = byte(r.Uint32())
		}
	}
	for rank := range ranks {
		arrivals := NewArrivals(p.to, "p", rank, func(e scheduler.Arrived) { p.arrived = append(p.arrived, e) })
		arrivals.Expect(7, []kvcache.PageID{3, 4, 1}, []kvcache.Gen{8, 9, 10}, 2*pageTokens+5)
		server := tcp.NewServer(p.to.Reach, tcp.ServerConfig{Applied: arrivals.Applied})
		address, err := server.Listen(t.Context(), "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		client := tcp.NewClient(address, tcp.ClientConfig{})
		t.Cleanup(func() { _ = client.Close(); _ = server.Close() })
		p.clients = append(p.clients, client)
		p.senders = append(p.senders, &Sender{Memory: p.from, Rank: rank, Ranks: ranks, Digest: true, Sum: p.sum})
	}
	return p
}

func (p *pair) sum(room scheduler.Room, digest uint64) {
	p.summed += digest
	if p.sums++; room != 7 {
		p.t.Errorf("the digest of room %d", room)
	}
}

// job sends pages 5, 6, 2 to 3, 4, 1; the last holds five tokens.
func (p *pair) job(rank int) Job {
	return Job{
		StartTransfer: scheduler.StartTransfer{
			Room: 7, Peer: "d", Source: []kvcache.PageID{5, 6, 2}, SourceGens: []kvcache.Gen{1, 1, 1},
			Target: []kvcache.PageID{3, 4, 1}, TargetGens: []kvcache.Gen{8, 9, 10}, Tokens: 5,
			Last: true, TargetSlot: 2, TargetSlotGen: 6, FirstToken: 65,
		},
		To: p.to.Addresses(), Writer: p.clients[rank], Position: 4,
	}
}

func (p *pair) send(rank int, change func(*Sender, *Job)) (*kvcache.TagFault, error) {
	p.t.Helper()
	j := p.job(rank)
	if change != nil {
		change(p.senders[rank], &j)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return p.senders[rank].Send(ctx, j)
}

func (p *pair) owed() Owed {
	return Owed{Pages: []kvcache.PageID{3, 4, 1}, Gens: []kvcache.Gen{8, 9, 10}, Position: 4, Tokens: 2*pageTokens + 5}
}

// Promise: what is sent lies where it was named, in every region, with its tags and
// the slot; rows behind the last token are zeros; each page is counted once; the
// digest matches, and is the sum of what each sender says of its part.
func TestAHandoffArrivesWhole(t *testing.T) {
	for _, ranks := range []int{1, 2} {
		p := newPair(t, ranks)
		for rank := range ranks {
			if fault, err := p.send(rank, nil); fault != nil || err != nil {
				t.Fatal(fault, err)
			}
		}
		for i, to := range p.owed().Pages {
			p.samePage([]int{5, 6, 2}[i], int(to), []int{pageTokens, pageTokens, 5}[i])
			for layer := range p.to.Pages.Tags() {
				if tag := p.to.Pages.Written(layer, int(to)); tag != backend.Tag(8+i) {
					t.Errorf("%d ranks: page %d of layer %d is tagged %v", ranks, to, layer, tag)
				}
			}
		}
		if len(p.arrived) != 3*ranks || p.arrived[2] != (scheduler.Arrived{Room: 7, Peer: "p", First: 2, Count: 1, Tokens: 5}) {
			t.Errorf("%d ranks: arrived %+v", ranks, p.arrived)
		}
		if r := p.to.Record(2, ranks-1); r.First != 65 || p.to.SlotTags()[2*ranks+ranks-1] != 6 {
			t.Errorf("%d ranks: record %+v, tags %v", ranks, r, p.to.SlotTags())
		}
		if c, err := p.to.Check(p.owed(), 2); err != nil || !c.Ran || !c.Match || c.Sum != p.summed || p.sums != ranks {
			t.Errorf("%d ranks: %+v, the senders say %x in %d parts", ranks, c, p.summed, p.sums)
		}
	}
}

func (p *pair) samePage(from, to, tokens int) {
	p.t.Helper()
	l := p.from.Pages.Layout()
	for i := range p.from.Pages.Regions() {
		source, target := p.from.Pages.Regions()[i].Page(from), p.to.Pages.Regions()[i].Page(to)
		for h := range l.KVHeads {
			n := tokens * l.RowBytes()
			if !bytes.Equal(l.Head(source, h)[:n], l.Head(target, h)[:n]) {
				p.t.Errorf("page %d of region %d is not what was sent", to, i)
			}
			if rest := l.Head(target, h)[n:]; !bytes.Equal(rest, make([]byte, len(rest))) {
				p.t.Errorf("page %d of region %d carries rows that nobody owns", to, i)
			}
		}
	}
}

// Promise: the digest finds any byte that changed, a page too few, a token too few,
// another generation, and another layout.
func TestTheDigestFindsWhatDiffers(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Sender, *Job)
		spoil  func(*pair, *Owed)
	}{
		"a byte":       {spoil: func(p *pair, _ *Owed) { p.to.Pages.Regions()[3].Page(4)[77] ^= 1 }},
		"a generation": {spoil: func(_ *pair, o *Owed) { o.Gens[1]++ }},
		"a position":   {spoil: func(_ *pair, o *Owed) { o.Position++ }},
		"a token":      {spoil: func(_ *pair, o *Owed) { o.Tokens++ }},
		"a page":       {change: func(_ *Sender, j *Job) { j.Source, j.Target, j.Tokens = j.Source[:2], j.Target[:2], pageTokens }},
		"a layout":     {change: func(s *Sender, _ *Job) { s.Transposed = true }},
	} {
		p := newPair(t, 1)
		if fault, err := p.send(0, c.change); fault != nil || err != nil {
			t.Fatal(fault, err)
		}
		o := p.owed()
		if c.spoil != nil {
			c.spoil(p, &o)
		}
		if c, err := p.to.Check(o, 2); err != nil || !c.Ran || c.Match || c.Sum == p.summed {
			t.Errorf("%s: %+v", name, c)
		}
	}
}

// unable is a backend that cannot digest.
type unable struct{ backend.Backend }

func (unable) Digest([2]uint64, []backend.DigestPage, int, int) (uint64, error) {
	return 0, errors.New("no GPU any more")
}

// Promise: where the digest cannot be computed nothing matches, and it is said why.
func TestADigestThatCannotBeComputedMatchesNothing(t *testing.T) {
	p := newPair(t, 1)
	if fault, err := p.send(0, nil); fault != nil || err != nil {
		t.Fatal(fault, err)
	}
	p.to.backend = unable{p.to.backend}
	if c, err := p.to.Check(p.owed(), 2); err == nil || c != (Checked{Ran: true}) {
		t.Errorf("%+v, %v", c, err)
	}
}

// Promise: a source that is not what its request takes it for sends nothing: no
// byte, no tag, no slot.
func TestAFaultySourceSendsNothing(t *testing.T) {
	p := newPair(t, 1)
	for layer := range p.from.Pages.Tags() {
		for _, page := range []int{5, 6, 2} {
			p.from.Pages.SetWritten(layer, page, 1)
		}
	}
	p.from.Pages.SetWritten(1, 6, 2)
	fault, err := p.send(0, func(_ *Sender, j *Job) { j.CheckTags = true })
	if err != nil || fault == nil || fault.Page != 6 || fault.Index != 1 || fault.Faults != 1 {
		t.Fatalf("%+v, %v", fault, err)
	}
	if len(p.arrived) != 0 || p.to.SlotTags()[2] != 0 || p.to.Pages.Written(0, 3) != 0 {
		t.Error("something was sent")
	}
}

// Promise: without its slot tag a record counts for nothing, and a peer without
// tags gets bytes alone.
func TestAPeerWithoutTagsGetsBytesAlone(t *testing.T) {
	p := newPair(t, 1)
	if fault, err := p.send(0, func(_ *Sender, j *Job) { j.To.Tags, j.To.Slots = nil, 0 }); fault != nil || err != nil {
		t.Fatal(fault, err)
	}
	if c, err := p.to.Check(p.owed(), 2); err != nil || c != (Checked{}) || p.sums != 0 || p.to.Pages.Written(0, 3) != 0 || len(p.arrived) != 3 {
		t.Errorf("digest %+v, arrived %+v", c, p.arrived)
	}
}

// Promise: bytes outside what was named, or for part of a page, count for nothing.
func TestPartsOfPagesDoNotArrive(t *testing.T) {
	m := half(t, 1)
	var got []scheduler.Arrived
	a := NewArrivals(m, "p", 0, func(e scheduler.Arrived) { got = append(got, e) })
	a.Expect(1, []kvcache.PageID{2}, []kvcache.Gen{1}, pageTokens)
	for _, r := range m.Pages.Regions() {
		at, n := r.PageAddress(2), uint64(r.PageBytes)
		a.Applied(at, n-1)
		a.Applied(at+1, n-1)
		a.Applied(r.PageAddress(3), n)
	}
	if len(got) != 0 {
		t.Fatalf("arrived %+v", got)
	}
	for _, r := range m.Pages.Regions() {
		a.Applied(r.PageAddress(1), 3*uint64(r.PageBytes))
		a.Applied(r.PageAddress(2), uint64(r.PageBytes)) // a retry counts once
	}
	if len(got) != 1 {
		t.Fatalf("arrived %+v", got)
	}
	a.Expect(2, []kvcache.PageID{4}, []kvcache.Gen{1}, 1)
	a.Forget(2)
	for _, r := range m.Pages.Regions() {
		a.Applied(r.PageAddress(4), uint64(r.PageBytes))
	}
	if len(got) != 1 {
		t.Fatalf("arrived %+v", got)
	}
}

// Promise: where bytes come uncounted, a page has arrived when its writer's tag stands
// in every layer that this writer brings, and counts once; another generation's tag,
// or one that is missing in a layer, is not it.
func TestStampedPagesArriveUncounted(t *testing.T) {
	m := half(t, 2)
	var got []scheduler.Arrived
	a := NewArrivals(m, "p", 1, func(e scheduler.Arrived) { got = append(got, e) })
	a.Expect(1, []kvcache.PageID{2, 4, 5}, []kvcache.Gen{7, 8, 9}, 2*pageTokens+3)
	first, end := layersOf(1, 2, len(m.Pages.Tags()))
	stamp := func(page, gen int, layers ...int) {
		for _, l := range layers {
			m.Pages.SetWritten(l, page, backend.Tag(gen))
		}
	}
	all := func() (layers []int) {
		for l := first; l < end; l++ {
			layers = append(layers, l)
		}
		return layers
	}()
	stamp(2, 6, all...)              // as it was before
	stamp(4, 8, all[:len(all)-1]...) // not in every layer
	a.Sweep()
	if len(got) != 0 {
		t.Fatalf("arrived %+v", got)
	}
	stamp(4, 8, all...)
	stamp(5, 9, all...)
	a.Sweep()
	a.Sweep()
	slices.SortFunc(got, func(x, y scheduler.Arrived) int { return x.First - y.First })
	want := []scheduler.Arrived{{Room: 1, Peer: "p", First: 1, Count: 1, Tokens: pageTokens}, {Room: 1, Peer: "p", First: 2, Count: 1, Tokens: 3}}
	if !slices.Equal(got, want) {
		t.Errorf("arrived %+v, want %+v", got, want)
	}
}
