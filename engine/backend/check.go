package backend

import (
	"fmt"

	"github.com/kvwitness/kvwitness/engine/model"
)

// CheckBatch is the check that every Forward makes before it writes anything.
// Errors: ErrBatch, with what is wrong with which sequence.
func CheckBatch(batch []Sequence, results []Result, spec model.Spec, pages, pageTokens int) error {
	if len(results) < len(batch) {
		return fmt.Errorf("%w: %d results for %d sequences", ErrBatch, len(results), len(batch))
	}
	if len(batch) > MaxBatchSequences {
		return fmt.Errorf("%w: %d sequences, at most %d", ErrBatch, len(batch), MaxBatchSequences)
	}
	tokens := 0
	for i := range batch {
		if err := checkSequence(&batch[i], spec, pages, pageTokens); err != nil {
			return fmt.Errorf("%w: sequence %d: %w", ErrBatch, i, err)
		}
		if tokens += len(batch[i].Tokens); tokens > MaxBatchTokens {
			return fmt.Errorf("%w: more than %d tokens", ErrBatch, MaxBatchTokens)
		}
	}
	return nil
}

func checkSequence(s *Sequence, spec model.Spec, pages, pageTokens int) error {
	switch {
	case len(s.Tokens) == 0:
		return fmt.Errorf("no token to append")
	case s.Start < 0 || s.Start > spec.MaxContext || len(s.Tokens) > spec.MaxContext-s.Start:
		return fmt.Errorf("%d tokens from position %d, the context is %d", len(s.Tokens), s.Start, spec.MaxContext)
	case len(s.Table)*pageTokens < s.Start+len(s.Tokens):
		return fmt.Errorf("%d pages of %d tokens for %d tokens", len(s.Table), pageTokens, s.Start+len(s.Tokens))
	}
	for i, b := range s.Table {
		if b.Page < 0 || int(b.Page) >= pages {
			return fmt.Errorf("block %d: page %d of %d: %w", i, b.Page, pages, ErrPage)
		}
	}
	for i, t := range s.Tokens {
		if t < 0 || int(t) >= spec.Vocab {
			return fmt.Errorf("token %d of the chunk: %w", i, model.ErrToken)
		}
	}
	return nil
}
