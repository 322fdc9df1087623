package handoff

import (
	"encoding/binary"

	"github.com/kvwitness/kvwitness/engine/kvcache"
	"github.com/kvwitness/kvwitness/engine/transfer"
)

// pieces lays a transfer out in the order that the receiver's checks count on: no
// tag while the bytes change, then the bytes, then the tags; the slot after all of
// its request's pages.
func (s *Sender) pieces(j Job, staged []region) (out []transfer.Piece) {
	runs := runsOf(j.Target)
	out = s.tagPieces(out, j, runs, func(kvcache.Gen) uint64 { return 0 })
	for _, r := range staged {
		size := int(j.To.Stride)
		for _, run := range runs {
			out = append(out, transfer.Piece{
				Source: r.bytes[run.at*size:][:run.n*size],
				Remote: j.To.Pages[r.index] + uint64(j.Target[run.at])*j.To.Stride,
			})
		}
	}
	out = s.tagPieces(out, j, runs, func(g kvcache.Gen) uint64 { return uint64(g) })
	if j.Last && j.To.Slots != 0 {
		out = s.slotPieces(out, j)
	}
	return out
}

// run is a stretch of targets that follow one another in memory.
type run struct{ at, n int }

func runsOf(pages []kvcache.PageID) (out []run) {
	for i, p := range pages {
		if i > 0 && p == pages[i-1]+1 {
			out[len(out)-1].n++
			continue
		}
		out = append(out, run{i, 1})
	}
	return out
}

func (s *Sender) tagPieces(out []transfer.Piece, j Job, runs []run, tag func(kvcache.Gen) uint64) []transfer.Piece {
	if len(j.To.Tags) == 0 {
		return out
	}
	first, end := layersOf(s.Rank, s.Ranks, len(j.To.Tags))
	for _, run := range runs {
		words := make([]byte, 0, run.n*wordBytes)
		for _, g := range j.TargetGens[run.at:][:run.n] {
			words = binary.LittleEndian.AppendUint64(words, tag(g))
		}
		for _, base := range j.To.Tags[first:end] {
			out = append(out, transfer.Piece{Source: words, Remote: base + uint64(j.Target[run.at])*wordBytes})
		}
	}
	return out
}

// slotPieces writes this rank's record of the metadata slot, and then its tag.
func (s *Sender) slotPieces(out []transfer.Piece, j Job) []transfer.Piece {
	sum := s.sum(j)
	s.mu.Lock()
	r := Record{First: j.FirstToken, HasDigest: s.Digest, Key: sum.key, Digest: sum.total}
	s.mu.Unlock()
	at := uint64(j.TargetSlot)*uint64(s.Ranks) + uint64(s.Rank)
	out = append(out, transfer.Piece{Source: r.bytes(), Remote: j.To.Slots + at*recordBytes})
	return append(out, transfer.Piece{
		Source: binary.LittleEndian.AppendUint64(nil, uint64(j.TargetSlotGen)),
		Remote: j.To.SlotTags + at*wordBytes,
	})
}
