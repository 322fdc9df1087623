package ledger_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/sidecar/ledger"
)

// FuzzLedger: facts without sense, made of a small alphabet so that they meet
// each other, never make the ledger panic, never take it past a limit, and are
// each accounted for once.
func FuzzLedger(f *testing.F) {
	f.Add([]byte("open two instances, admit, reserve, write, read, release, and once more"))
	f.Add([]byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 250, 251, 252, 253, 254, 255, 0, 0, 0, 17, 34, 51, 68, 85})
	f.Fuzz(func(t *testing.T, data []byte) { senseless(t, data) })
}

// Promise: the same on long streams from a seed, which fuzzing reaches slowly.
func TestSenselessStreamsKeepTheLimits(t *testing.T) {
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 5))
		data := make([]byte, 60_000)
		for i := range data {
			data[i] = byte(rng.Uint32())
		}
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) { senseless(t, data) })
	}
}

func senseless(t *testing.T, data []byte) {
	l := ledger.New(ledger.Config{Limits: small})
	for i, inst := range []string{"a", "b"} {
		fact := openPool(inst, 64, []lifecycle.Region{{Base: uint64(i) << 12, Stride: 64, Bytes: 48}, {Base: uint64(i+4) << 12, Stride: 64, Bytes: 64, Part: "staging"}})
		l.Step(fact)
	}
	m := maker{data: data}
	for len(m.data) > 0 {
		l.Step(m.fact())
	}
	within(t, l, small)
	accounted(t, l)
	l.Advance(m.t + 1e12)
	l.Close()
	l.Verdicts()
	within(t, l, small)
	accounted(t, l)
}

// maker reads facts out of bytes; bytes that are missing are 0.
type maker struct {
	data []byte
	t    int64
}

func (m *maker) n(below int) int {
	if len(m.data) == 0 {
		return 0
	}
	b := m.data[0]
	m.data = m.data[1:]
	return int(b) % below
}

func (m *maker) one(of ...string) string { return of[m.n(len(of))] }

func (m *maker) runs() lifecycle.Runs {
	var runs lifecycle.Runs
	for range m.n(4) {
		runs = append(runs, lifecycle.Run{First: uint32(m.n(66)), Count: uint32(1 + m.n(6))})
	}
	return runs
}

// lastEv is the highest event of format v1.
const lastEv = lifecycle.ClockOffset

func (m *maker) fact() *lifecycle.Fact {
	m.t += int64(m.n(8)) * 3_000_000
	if m.n(16) == 0 {
		m.t -= int64(m.n(64)) * 1_000_000
	}
	f := &lifecycle.Fact{
		T: m.t, Node: m.one("n", "o"), Inst: m.one("a", "b", "c", ""), Src: lifecycle.Src(1 + m.n(int(lifecycle.NumSrc)-1)),
		Ev: lifecycle.Ev(m.n(int(lastEv) + 1)), Pool: m.one("kv", "kv", "other"), Req: m.one("r", "s", "q", ""), Room: m.one("1", "2", "0", ""),
		Pages: m.runs(), Xfer: m.one("x", "y", ""), Peer: m.one("a", "b", "c"), From: m.one("a", "b", ""),
	}
	if f.Inst == "" && f.Ev != lifecycle.EventsLost && f.Ev != lifecycle.Watermark && f.Ev != lifecycle.ClockOffset {
		f.Inst = "a" // the decoder lets no other fact leave it out
	}
	m.details(f)
	return f
}

func (m *maker) details(f *lifecycle.Fact) {
	if m.n(3) == 0 {
		f.Seq = lifecycle.Some(uint64(m.n(12)))
	}
	if m.n(2) == 0 {
		f.Step = lifecycle.Some(int64(m.n(6)))
	}
	if m.n(8) == 0 {
		f.Epoch = lifecycle.Some(uint64(m.n(4)))
	}
	f.By, f.Side = lifecycle.By(1+m.n(4)), lifecycle.Side(1+m.n(2))
	f.Op, f.Outcome = lifecycle.Op(m.n(5)), lifecycle.Outcome(1+m.n(4))
	f.Addr, f.Bytes = uint64(m.n(256))*97, uint64(m.n(256))*m.scale()
	f.Last, f.Synthetic, f.Complete = m.n(2) == 0, m.n(8) == 0, m.n(3) > 0
	f.Of = lifecycle.Src(1 + m.n(int(lifecycle.NumSrc)-1))
	f.HTTPStatus, f.Key, f.Holder = int64(200*m.n(3)), m.one("k", "l", ""), m.one("", "cache")
	if m.n(2) == 0 {
		f.Domain, f.PromptTokens = lifecycle.Some(m.one("", "d", "e")), lifecycle.Some(int64(m.n(256)))
		f.Tokens, f.FromAddr = lifecycle.Some(int64(m.n(256))), lifecycle.Some(uint64(m.n(256))*64)
	}
	f.CopyFrom, f.CopyTo = lifecycle.PageRef{Pool: f.Pool, Pages: m.runs()}, lifecycle.PageRef{Pool: "kv", Pages: m.runs()}
	f.GapFrom, f.NS, f.Digest = uint64(m.n(9)), int64(m.n(9))*1_000_000, m.one("5", "6")
	f.GapTo = f.GapFrom + uint64(m.n(5))
	f.Audit = &lifecycle.Audit{Free: int64(m.n(64)), Held: int64(m.n(64))}
	f.VRAM = &lifecycle.Usage{GPU: m.one("0", "1"), PID: int64(m.n(4))}
	f.Spec = &lifecycle.PoolSpec{
		Pages: uint32(m.n(80)), PageTokens: int64(1 + m.n(8)), Owes: lifecycle.Owes(m.n(4)), Window: int64(m.n(64)),
		Since: lifecycle.Since(m.n(2)), Path: lifecycle.Path(m.n(2)), NullIDs: m.runs(), PIDs: []int64{int64(m.n(4))}, PageBytes: uint64(m.n(9)),
		ContextTokens: lifecycle.Some(int64(m.n(256))),
		Regions:       []lifecycle.Region{{Base: uint64(m.n(256)) * 100, Stride: 64, Bytes: uint64(1 + m.n(64))}},
	}
}

// scale makes some sizes overflow an address.
func (m *maker) scale() uint64 {
	if m.n(32) == 0 {
		return 1 << 39
	}
	return 1
}
