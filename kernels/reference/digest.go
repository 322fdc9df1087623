package reference

import (
	"encoding/binary"
	"fmt"
)

// The page digest, so that another implementation can be checked against it.
// All numbers are unsigned 64-bit, all arithmetic is modulo 2^64, bytes are
// little-endian.
//
//	mix(x):  x ^= x >> 32;  x *= 0xd6e8feb86659fd93
//	         x ^= x >> 32;  x *= 0xd6e8feb86659fd93
//	         x ^= x >> 32
//
//	seed:    s = mix(Key[0])             + Key[1]
//	         s = mix(s ^ Position)       + Key[1]
//	         s = mix(s ^ (Layer<<32|Part)) + Key[1]
//	         s = mix(s ^ Generation)     + Key[1]
//	         s = mix(s ^ tokens)         + Key[1]
//
//	lane i (bytes 16i to 16i+15 of the page, i from 0; a and b its two words):
//	         mix(a ^ (s + 2i × phi)) + mix(b ^ (s + (2i+1) × phi))
//	         phi = 0x9e3779b97f4a7c15
//
//	digest:  mix(s) + the sum of all lanes of rows below tokens, in each kv head
//
// A handoff's digest is the sum of the digests of its pages, layers and parts.
// Addition makes it free of order, of the number of threads and of where the
// pages lie; i is counted within the page, so that moved bytes are seen.
//
// mix is a bijection, so a change within one aligned 8-byte word always changes
// the digest. Changes in several words cancel with probability about 2^-64 for
// one who does not know the key. It is no MAC: a MAC goes over the digests.
const (
	digestMultiplier = 0xd6e8feb86659fd93
	digestStep       = 0x9e3779b97f4a7c15
	digestTwoSteps   = 2 * digestStep & (1<<64 - 1)
)

// Part says which buffer of a layer a region is.
type Part uint8

const (
	PartK Part = iota + 1
	PartV
	PartTag // the written tags of a layer: 8 bytes a page, never digested
)

// String returns the name that a region of pool_opened carries as part.
func (p Part) String() string {
	switch p {
	case PartK:
		return "k"
	case PartV:
		return "v"
	case PartTag:
		return "tag"
	}
	return fmt.Sprintf("part(%d)", uint8(p))
}

// Binding is what a page's digest is about besides its bytes.
type Binding struct {
	Key        [2]uint64 // of the transfer, fresh for each
	Position   int       // which page of the prompt, from 0
	Layer      int
	Part       Part
	Generation uint64 // the receiver's, which it told the sender
}

// Digest returns the digest of the first tokens rows of every kv head of a page
// (PageBytes long). Rows from tokens on do not count, their number does.
func (l Layout) Digest(page []byte, tokens int, b Binding) uint64 {
	seed := b.seed(tokens)
	sum := mix(seed)
	lanes := tokens * l.RowBytes() / LaneBytes
	for h := range l.KVHeads {
		first := h * l.HeadBytes() / LaneBytes
		sum += lanesDigest(page[first*LaneBytes:(first+lanes)*LaneBytes], seed+uint64(2*first)*digestStep)
	}
	return sum
}

func (b Binding) seed(tokens int) uint64 {
	s := mix(b.Key[0]) + b.Key[1]
	for _, x := range [...]uint64{
		uint64(b.Position), uint64(b.Layer)<<32 | uint64(b.Part), b.Generation, uint64(tokens),
	} {
		s = mix(s^x) + b.Key[1]
	}
	return s
}

// lanesDigest sums the lanes of b, the first of which has the given word key.
func lanesDigest(b []byte, key uint64) uint64 {
	var sum uint64
	for len(b) >= LaneBytes {
		sum += mix(binary.LittleEndian.Uint64(b)^key) +
			mix(binary.LittleEndian.Uint64(b[8:])^(key+digestStep))
		key += digestTwoSteps
		b = b[LaneBytes:]
	}
	return sum
}

func mix(x uint64) uint64 {
	x ^= x >> 32
	x *= digestMultiplier
	x ^= x >> 32
	x *= digestMultiplier
	return x ^ x>>32
}
