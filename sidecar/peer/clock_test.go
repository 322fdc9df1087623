package peer

import (
	"math/rand/v2"
	"testing"
	"time"
)

// Promise: however the way is divided, and while the clocks drift apart as they may,
// the truth lies within the error that is told.
func TestTheOffsetIsTrueWithinItsError(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 1))
	for range 200 {
		start := rnd.Int64N(1<<50) - 1<<49
		drift := (rnd.Float64()*2 - 1) * clockDrift
		there := func(here int64) int64 { return here + start + int64(float64(here)*drift) }
		var c Clock
		now := rnd.Int64N(1 << 40)
		// where they stand apart at now already, drift begins from there
		base := there(now) - now
		at := func(here int64) int64 { return here + base + int64(float64(here-now)*drift) }
		begin := now
		for range 60 {
			out, stay, back := rnd.Int64N(3e6), rnd.Int64N(1e6), rnd.Int64N(3e6)
			if rnd.IntN(10) == 0 {
				out += 200e6 // lost, and sent again
			}
			if !c.Add(now, at(now+out), at(now+out+stay), now+out+stay+back) {
				t.Fatalf("an exchange at %d does not fit", now-begin)
			}
			now += out + stay + back + rnd.Int64N(1e9)
			r, known := c.Read(now)
			truth := at(now) - now
			if d := truth - r.Offset.Nanoseconds(); !known || max(d, -d) > r.Error.Nanoseconds()+1 {
				t.Fatalf("%d off, with an error of %d", d, r.Error)
			}
		}
	}
}

func TestTheQuickestExchangeCounts(t *testing.T) {
	var c Clock
	const ahead = int64(1e12)
	c.Add(0, ahead+100, ahead+100, 1_000_000)
	c.Add(2_000_000, ahead+2_000_050, ahead+2_000_060, 2_000_110)
	c.Add(3_000_000, ahead+3_900_000, ahead+3_900_000, 4_000_000)
	r, known := c.Read(4_000_000)
	if !known || r.RoundTrip != 100 || r.Error < 50 || r.Error > 3000 {
		t.Errorf("read %+v", r)
	}
	if d := r.Offset - time.Duration(ahead); d < -50 || d > 50 {
		t.Errorf("off by %d", d)
	}
}

func TestAClockThatWasSetIsNoticed(t *testing.T) {
	for name, ahead := range map[string]int64{"forward": 5e6, "back": -5e6} {
		var c Clock
		c.Add(0, 50, 60, 110)
		if c.Add(1000, 1050+ahead, 1060+ahead, 1110) {
			t.Errorf("%s: not noticed", name)
		}
		if _, known := c.Read(1110); known {
			t.Errorf("%s: what was known of the old clock still counts", name)
		}
	}
}

func TestTimesThatCannotBeAreRefused(t *testing.T) {
	for _, times := range [][4]int64{
		{10, 0, 5, 9},           // back before it was asked
		{0, 10, 5, 20},          // answered before it was heard
		{0, 0, 100, 50},         // longer there than it took in all
		{0, maxClock + 1, 0, 1}, // beyond all times
		{0, -maxClock - 1, 0, 1},
	} {
		var c Clock
		if c.Add(times[0], times[1], times[2], times[3]) {
			t.Errorf("%v was taken", times)
		}
	}
}
