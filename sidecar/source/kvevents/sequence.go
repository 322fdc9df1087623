package kvevents

// sequence follows the numbers of one rank's batches.
type sequence struct {
	next  uint64
	begun bool
}

// turn is what a number means when it comes.
type turn uint8

const (
	inTurn  turn = iota
	gap          // those from next on are missing
	twice        // it came before
	restart      // the engine counts anew
)

// slack is how far back a number may be that is only late: replay and live messages
// overlap by some. Further back is a restart.
const slack = 1 << 10

func (s *sequence) see(seq uint64) turn {
	switch {
	case !s.begun:
		return inTurn
	case seq == s.next:
		return inTurn
	case seq > s.next:
		return gap
	case seq == 0 || s.next-seq > slack:
		return restart
	}
	return twice
}

// took notes that a batch was taken.
func (s *sequence) took(seq uint64) { s.next, s.begun = seq+1, true }
