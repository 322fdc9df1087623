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

// CheckDigest is the check that every Digest makes. Errors: ErrPage, ErrLayer.
func CheckDigest(digest []DigestPage, first, end int, spec model.Spec, pages, pageTokens int) error {
	if first < 0 || end < first || end > len(spec.Layers) {
		return fmt.Errorf("%w: from %d up to %d of %d", ErrLayer, first, end, len(spec.Layers))
	}
	for _, p := range digest {
		if err := CheckPage(p.Page, pages); err != nil {
			return err
		}
		if p.Tokens < 0 || p.Tokens > pageTokens {
			return fmt.Errorf("%w: %d tokens of a page of %d", ErrPage, p.Tokens, pageTokens)
		}
	}
	return nil
}

// CheckPage returns ErrPage for a page that is not in a pool of so many.
func CheckPage(page, pages int) error {
	if page < 0 || page >= pages {
		return fmt.Errorf("%w: page %d of %d", ErrPage, page, pages)
	}
	return nil
}
