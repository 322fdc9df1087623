package publish

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

// What is kept is the last batches, whole and in order, as many as fit.
func TestTheLastBatchesAreKept(t *testing.T) {
	for seed := range uint64(50) {
		rng := rand.New(rand.NewPCG(seed, 0))
		const batches, size = 7, 300
		k := newKept(batches, size)
		var all [][]byte
		for seq := range uint64(400) {
			payload := bytes.Repeat([]byte{byte(seq)}, 1+rng.IntN(120))
			all = append(all, payload)
			k.keep(seq, payload)
			n, held := k.load()
			if n < 1 || n > batches || held > size {
				t.Fatalf("seed %d: %d batches of %d bytes", seed, n, held)
			}
			oldest := seq + 1 - uint64(n)
			for from := uint64(0); from <= seq; from++ {
				got, b, ok := k.from(from, nil)
				if want := max(from, oldest); !ok || got != want || !bytes.Equal(b, all[want]) {
					t.Fatalf("seed %d: from %d came batch %d (%v) of %d bytes, want %d", seed, from, got, ok, len(b), want)
				}
			}
			if _, _, ok := k.from(seq+1, nil); ok {
				t.Fatalf("seed %d: a batch that is yet to come", seed)
			}
		}
		k.keep(400, make([]byte, size+1)) // more than can be kept
		if _, _, ok := k.from(0, nil); ok {
			t.Fatalf("seed %d: batches before a hole", seed)
		}
		k.keep(401, []byte("x"))
		if got, _, ok := k.from(0, nil); !ok || got != 401 {
			t.Fatalf("seed %d: after a hole comes %d", seed, got)
		}
	}
}
