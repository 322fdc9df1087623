package model

import (
	"bytes"
	"errors"
	"math"
	"testing"
)

// Promise: what is sent on is the text up to the first stop string, no matter how
// the stop strings overlap, and no byte of it is ever sent ahead.
func FuzzAnswerStopsAtTheFirstStopString(f *testing.F) {
	f.Add([]byte("one two END three"), []byte("END"), []byte("two EN"), 100)
	f.Add([]byte("aaaab"), []byte("aab"), []byte("ab"), 3)
	f.Add([]byte("abcabd"), []byte("abd"), []byte("c"), 6)
	f.Fuzz(func(t *testing.T, text, stop1, stop2 []byte, limit int) {
		a, err := NewAnswer(Bytes{}, limit, stop1, stop2)
		if err != nil {
			if valid := len(stop1) > 0 && len(stop2) > 0 && len(stop1) <= MaxStopBytes && len(stop2) <= MaxStopBytes; valid {
				t.Fatal(err)
			}
			return
		}
		want, finish := expectAnswer(text, limit, stop1, stop2)
		var got []byte
		for _, b := range text {
			got = append(got, a.Push(Token(b))...)
			if !bytes.HasPrefix(want, got) {
				t.Fatalf("sent %q, the answer is %q", got, want)
			}
		}
		got = append(got, a.Push(EOT)...)
		if !bytes.Equal(got, want) || a.Finish() != finish {
			t.Fatalf("got %q (%v), want %q (%v)", got, a.Finish(), want, finish)
		}
	})
}

// expectAnswer finds the stop string whose end comes first in the whole text; of
// those that end together, the one that begins first.
func expectAnswer(text []byte, limit int, stops ...[]byte) ([]byte, Finish) {
	if limit <= 0 {
		return nil, FinishLength
	}
	for end := 1; end <= min(len(text), limit); end++ {
		first := -1
		for _, s := range stops {
			if at := end - len(s); bytes.HasSuffix(text[:end], s) && (first < 0 || at < first) {
				first = at
			}
		}
		if first >= 0 {
			return text[:first], FinishStop
		}
	}
	if len(text) >= limit {
		return text[:limit], FinishLength
	}
	return text, FinishStop
}

// Promise: stop strings beyond the bounds are refused.
func TestStopStringsAreBounded(t *testing.T) {
	for name, stops := range map[string][][]byte{
		"too many": make([][]byte, MaxStops+1),
		"empty":    {{}},
		"too long": {make([]byte, MaxStopBytes+1)},
	} {
		if _, err := NewAnswer(Bytes{}, 1, stops...); !errors.Is(err, ErrStop) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Promise: nothing follows the end of an answer.
func TestAnAnswerThatEndedTakesNothing(t *testing.T) {
	a, err := NewAnswer(Bytes{}, 2)
	if err != nil {
		t.Fatal(err)
	}
	got := string(a.Push('a')) + string(a.Push('b')) + string(a.Push('c')) + string(a.Push(EOT))
	if got != "ab" || a.Finish().String() != "length" {
		t.Fatalf("got %q, %v", got, a.Finish())
	}
}

// Promise: greedy takes the first of the largest; a seed decides the rest; the
// shares follow exp(logit ÷ temperature).
func TestSamplerFollowsItsTemperature(t *testing.T) {
	if got, ok := NewSampler(0, 1).Pick([]float32{1, 3, 3, 2}); !ok || got != 1 {
		t.Fatalf("greedy picked %d, %v", got, ok)
	}
	logits := []float32{0, float32(2 * math.Log(3)), float32(math.Inf(-1))}
	s, same, counts := NewSampler(2, 7), NewSampler(2, 7), [3]int{}
	const draws = 20_000
	for range draws {
		got, ok := s.Pick(logits)
		again, _ := same.Pick(logits)
		if !ok || got != again {
			t.Fatalf("equal seeds picked %d and %d", got, again)
		}
		counts[got]++
	}
	if share := float64(counts[1]) / draws; math.Abs(share-0.75) > 0.02 || counts[2] != 0 {
		t.Fatalf("counts %v, want a quarter, three quarters, none", counts)
	}
}

// Promise: where there is no choice there is no token.
func TestSamplerRefusesLogitsThatAreNoNumbers(t *testing.T) {
	nan := float32(math.NaN())
	for _, logits := range [][]float32{nil, {nan, nan}} {
		if got, ok := NewSampler(1, 1).Pick(logits); ok {
			t.Errorf("%v: picked %d", logits, got)
		}
	}
	if got, ok := NewSampler(1, 1).Pick([]float32{nan, 1, float32(math.Inf(1))}); !ok || got != 2 {
		t.Errorf("picked %d, %v", got, ok)
	}
}
