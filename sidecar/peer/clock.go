package peer

import "time"

const (
	// clockWindow is of how many exchanges the best one counts.
	clockWindow = 16
	// clockDrift is how far two clocks may come apart: NTP steers by at most 500
	// parts in a million.
	clockDrift = 500e-6
	// maxClock bounds times, in ns either side of zero, so that sums do not overflow.
	maxClock = 1 << 61
)

// Clock estimates how far another node's clock is ahead of this one's, from exchanges
// of which four times are known: asked (here), heard and answered (there), and back
// (here). The truth lies within half of what the way took, however that was divided
// between there and back; so the exchange that took the least counts, and an older one
// the less the longer it is ago. The zero Clock knows nothing. It is a pure state
// machine.
type Clock struct {
	all [clockWindow]exchange
	n   int // exchanges so far
}

type exchange struct {
	at     int64 // here, ns
	offset int64
	way    int64 // ns there and back
}

// Reading is what is known of another node's clock.
type Reading struct {
	Offset    time.Duration // there less here
	Error     time.Duration // the offset is off by this at most
	RoundTrip time.Duration // of the exchange that counts
}

// Add takes an exchange, in ns. It reports whether it can be true, and fits what was
// known: otherwise a clock was set, and what was known is forgotten.
func (c *Clock) Add(asked, heard, answered, back int64) (fits bool) {
	for _, t := range [...]int64{asked, heard, answered, back} {
		if t > maxClock || t < -maxClock {
			return false
		}
	}
	e := exchange{at: back, offset: (heard-asked)/2 + (answered-back)/2, way: (back - asked) - (answered - heard)}
	if back < asked || answered < heard || e.way < 0 {
		return false
	}
	if before, known := c.Read(back); known && c.apart(before, e) {
		*c = Clock{}
		return false
	}
	c.all[c.n%clockWindow] = e
	c.n++
	return true
}

// apart reports whether what was known and an exchange cannot both be true.
func (c *Clock) apart(known Reading, e exchange) bool {
	d := e.offset - known.Offset.Nanoseconds()
	return max(d, -d) > known.Error.Nanoseconds()+e.bound(e.at)
}

// bound is how far from the truth the offset may be at now.
func (e exchange) bound(now int64) int64 {
	return (e.way+1)/2 + 1 + int64(float64(max(now-e.at, 0))*clockDrift)
}

// Read is what is known at now, in ns here.
func (c *Clock) Read(now int64) (r Reading, known bool) {
	for _, e := range c.all[:min(c.n, clockWindow)] {
		if bound := e.bound(now); !known || bound < r.Error.Nanoseconds() {
			r = Reading{time.Duration(e.offset), time.Duration(bound), time.Duration(e.way)}
			known = true
		}
	}
	return r, known
}
