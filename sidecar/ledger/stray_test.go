package ledger

import "testing"

// What is never seen to end goes when as much came after it; what came last stays.
func TestStraysAreBounded(t *testing.T) {
	var s strays
	of := poster{"prefill-0", "x"}
	for i := range uint64(10 * maxStrays) {
		s.post(of, stray{lo: i, hi: i + 1})
	}
	if kept := len(s.fresh[of]) + len(s.aged[of]); kept > 2*maxStrays {
		t.Errorf("%d are kept, want at most %d", kept, 2*maxStrays)
	}
	s.completed(of)
	if s.end(of, 0, 1) {
		t.Error("the first is remembered")
	}
	for i := uint64(9 * maxStrays); i < 10*maxStrays; i++ {
		if !s.end(of, i, i+1) {
			t.Fatalf("of the last %d that was posted as %d is forgotten", maxStrays, i)
		}
	}
	if n := len(s.fresh) + len(s.aged); n > 1 {
		t.Errorf("%d transfers are remembered of which nothing is left", n)
	}
}

// Ends that cut what was posted into pieces make no more of them than are kept.
func TestStraysAreBoundedWhenCut(t *testing.T) {
	var s strays
	of := poster{"prefill-0", "x"}
	s.post(of, stray{lo: 0, hi: 64 * maxStrays, landed: true})
	s.n = 2*maxStrays - 10 // as if so many others were kept
	for i := range uint64(100) {
		s.end(of, 4*i+1, 4*i+2)
	}
	if kept := len(s.fresh[of]); kept > 11 {
		t.Errorf("%d pieces are kept, want at most 11", kept)
	}
}
