package model

import (
	"bytes"
	"errors"
	"fmt"
)

// Bounds on what a client may ask to stop at.
const (
	MaxStops     = 16
	MaxStopBytes = 1024
)

// ErrStop says that the stop strings are outside the bounds.
var ErrStop = errors.New("stop strings are not supported")

// Finish says why an answer ended, in the words of the OpenAI interface.
type Finish uint8

const (
	Running      Finish = iota
	FinishStop          // a token at which it ends, or a stop string
	FinishLength        // the limit on tokens
)

// String returns the finish_reason, empty while the answer runs.
func (f Finish) String() string { return [...]string{"", "stop", "length"}[f] }

// Answer turns tokens into the text that may be sent on. Text that may yet turn
// out to begin a stop string is held back until it is decided, so that a stream
// never shows a part of one. The stop string itself is not part of the answer.
type Answer struct {
	words  Vocabulary
	stops  [][]byte
	left   int
	held   []byte // between tokens at most the longest stop string, less one byte
	finish Finish
}

// CheckStops returns ErrStop for stop strings outside the bounds.
func CheckStops(stops [][]byte) error {
	if len(stops) > MaxStops {
		return fmt.Errorf("%w: %d of them, at most %d", ErrStop, len(stops), MaxStops)
	}
	for i, s := range stops {
		if len(s) == 0 || len(s) > MaxStopBytes {
			return fmt.Errorf("%w: number %d has %d bytes, want 1 to %d", ErrStop, i, len(s), MaxStopBytes)
		}
	}
	return nil
}

// NewAnswer starts an answer in a model's words, of at most maxTokens tokens (one
// that ends it does not count).
func NewAnswer(words Vocabulary, maxTokens int, stops ...[]byte) (*Answer, error) {
	if err := CheckStops(stops); err != nil {
		return nil, err
	}
	a := &Answer{words: words, stops: stops, left: maxTokens}
	if maxTokens <= 0 {
		a.finish = FinishLength
	}
	return a, nil
}

// Push takes the next token and returns the bytes that are now decided. The slice
// is the caller's. After the answer ended it takes nothing.
func (a *Answer) Push(t Token) []byte {
	if a.finish != Running {
		return nil
	}
	if a.words.Ends(t) {
		a.finish = FinishStop
		return a.flush(len(a.held))
	}
	a.held = append(a.held, a.words.Text(t)...)
	if at, ok := a.stopAt(); ok {
		a.finish = FinishStop
		return a.flush(at)
	}
	if a.left--; a.left == 0 {
		a.finish = FinishLength
		return a.flush(len(a.held))
	}
	return a.flush(len(a.held) - a.undecided())
}

// Finish returns why the answer ended, or Running.
func (a *Answer) Finish() Finish { return a.finish }

// stopAt returns where the earliest stop string begins in the held text.
func (a *Answer) stopAt() (at int, ok bool) {
	at = len(a.held)
	for _, s := range a.stops {
		if i := bytes.Index(a.held, s); i >= 0 && i < at {
			at, ok = i, true
		}
	}
	return at, ok
}

// undecided returns the length of the longest end of the held text that begins a
// stop string.
func (a *Answer) undecided() int {
	longest := 0
	for _, s := range a.stops {
		for n := min(len(s)-1, len(a.held)); n > longest; n-- {
			if bytes.HasSuffix(a.held, s[:n]) {
				longest = n
				break
			}
		}
	}
	return longest
}

// flush returns the first n held bytes and keeps the rest.
func (a *Answer) flush(n int) []byte {
	out := bytes.Clone(a.held[:n])
	a.held = append(a.held[:0], a.held[n:]...)
	return out
}
