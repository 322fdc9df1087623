package cuts

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

func filled(b byte, sectors int) []byte { return bytes.Repeat([]byte{b}, sectors*sector) }

// Promise: what was flushed stays; of what was not, any sector may be lost for
// itself, or left as an earlier write had it; and all of it is read until then.
func TestOnlyWhatWasFlushedIsSureToStay(t *testing.T) {
	const sectors = 64
	d := newDisk(filled('0', sectors))
	d.write(filled('1', sectors), 0)
	if !d.flush() {
		t.Fatal("there is power")
	}
	d.write(filled('2', sectors), 0)
	d.write(filled('3', sectors/2), 0)
	got := make([]byte, sectors*sector)
	if d.read(got, 0); !bytes.Equal(got, append(filled('3', sectors/2), filled('2', sectors/2)...)) {
		t.Fatal("what was written last is not read")
	}
	few := make([]byte, 2*512)
	if d.read(few, sector*sectors/2-512); !bytes.Equal(few, append(bytes.Repeat([]byte{'3'}, 512), bytes.Repeat([]byte{'2'}, 512)...)) {
		t.Fatal("what lies across two sectors is read otherwise")
	}
	next, lost := d.restart(rand.New(rand.NewPCG(1, 1)))
	next.read(got, 0)
	seen := map[byte]int{}
	for n := 0; n < len(got); n += sector {
		if !bytes.Equal(got[n:n+sector], filled(got[n], 1)) {
			t.Fatalf("the sector at %d is torn", n)
		}
		seen[got[n]]++
	}
	if seen['0'] > 0 || seen['1'] == 0 || seen['2'] == 0 || seen['3'] == 0 || lost == 0 {
		t.Errorf("%v, %d lost", seen, lost)
	}
}

// Promise: once its power went nothing more stays, and what asks for it is told so.
func TestWithoutPowerNothingStays(t *testing.T) {
	d := newDisk(filled('0', 1))
	d.cutAfter(2)
	if !d.write(filled('1', 1), 0) || d.flush() || d.write(filled('2', 1), 0) || d.flush() {
		t.Error("it took something without power, or nothing with it")
	}
	<-d.dead
	for seed := range uint64(20) {
		next, _ := d.restart(rand.New(rand.NewPCG(seed, 0)))
		if got := make([]byte, sector); true {
			if next.read(got, 0); got[0] == '2' {
				t.Fatal("a write without power stayed")
			}
		}
	}
}
