package intake

import (
	"math"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
)

// A debt is what an instance has yet to say of what was seen of it from outside. Bytes
// that arrive where no transfer is known accuse somebody, and what the instance
// said of them may be on its way still.
type debt struct {
	sight    int64 // the latest time of what was seen, in ns
	waited   int64 // the time of what is waited for; 0: nothing is
	since    int64 // when that began
	patience int64 // ns, for how long at most
}

// leastPatience is had with an instance that says nothing of what is seen of it.
const leastPatience = int64(FirstDelay)

// holds reports whether an instance that was heard up to last is waited for at
// now. One that says nothing in all the time is waited for half as long the next time,
// and one that does twice.
func (d *debt) holds(last, now int64) bool {
	if d.waited != 0 && last >= d.waited {
		d.patience, d.waited = min(2*d.patience, MaxDelay.Nanoseconds()), 0
	}
	if last >= d.sight {
		return false
	}
	if d.waited == 0 {
		d.waited, d.since = d.sight, now
	}
	if now-d.since < d.patience {
		return true
	}
	d.patience = max(d.patience/2, leastPatience)
	d.forgive()
	return false
}

// forgive waits for nothing that was seen until now.
func (d *debt) forgive() { d.sight, d.waited = math.MinInt64, 0 }

// sees notes of which instances a fact tells that it did not come from: bytes are
// judged by what was said of the pages where they arrive, and of those that they
// were read from; what is seen on the wire by what the engine says of the same.
func (s *Source) sees(f *lifecycle.Fact, at int64) {
	bytes := f.Ev == lifecycle.BytesMoved && f.Src.Observes()
	wire := (f.Ev == lifecycle.TransferStarted || f.Ev == lifecycle.TransferCompleted) && f.Src == lifecycle.Wire
	if !bytes && !wire {
		return
	}
	s.sights[f.Inst] = max(s.sights[f.Inst], at)
	if bytes && f.FromAddr.Has && f.From != "" {
		s.sights[f.From] = max(s.sights[f.From], at)
	}
}

// share tells each source what was seen of its instance, unless somebody waits for
// room: then nobody is held back.
func (in *Intake) share(sources []*Source) {
	clear(in.sights)
	pressed := false
	for _, s := range sources {
		pressed = s.tell(in.sights) || pressed
	}
	for _, s := range sources {
		at, seen := in.sights[s.inst]
		if !seen {
			at = math.MinInt64
		}
		s.hear(at, pressed)
	}
}

// tell adds what the source saw to all.
func (s *Source) tell(all map[string]int64) (pressed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for inst, at := range s.sights {
		all[inst] = max(all[inst], at)
	}
	clear(s.sights)
	return s.pressed
}

func (s *Source) hear(sight int64, pressed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.owes.sight = max(s.owes.sight, sight); pressed {
		s.owes.forgive()
	}
}
