package kvcache

import (
	"encoding/binary"
	"math/bits"
)

// Key is a keyed hash of a domain and a prefix of tokens, page by page: the key of
// a page covers everything before it. It reveals nothing to one without the secret
// and cannot be made to collide by choosing prompts.
type Key uint64

// Secret is the key under which prefixes are hashed: 16 random bytes.
type Secret [16]byte

// hasher is SipHash-2-4 (Aumasson and Bernstein, 2012).
type hasher struct {
	v0, v1, v2, v3 uint64
	length         uint64
}

func (s Secret) hasher() hasher {
	k0, k1 := binary.LittleEndian.Uint64(s[:8]), binary.LittleEndian.Uint64(s[8:])
	return hasher{
		v0: k0 ^ 0x736f6d6570736575, v1: k1 ^ 0x646f72616e646f6d,
		v2: k0 ^ 0x6c7967656e657261, v3: k1 ^ 0x7465646279746573,
	}
}

func (h *hasher) round() {
	h.v0 += h.v1
	h.v1 = bits.RotateLeft64(h.v1, 13) ^ h.v0
	h.v0 = bits.RotateLeft64(h.v0, 32)
	h.v2 += h.v3
	h.v3 = bits.RotateLeft64(h.v3, 16) ^ h.v2
	h.v0 += h.v3
	h.v3 = bits.RotateLeft64(h.v3, 21) ^ h.v0
	h.v2 += h.v1
	h.v1 = bits.RotateLeft64(h.v1, 17) ^ h.v2
	h.v2 = bits.RotateLeft64(h.v2, 32)
}

// word takes in eight bytes.
func (h *hasher) word(m uint64) {
	h.v3 ^= m
	h.round()
	h.round()
	h.v0 ^= m
	h.length += 8
}

// sum closes with the last bytes, fewer than eight, little-endian in tail.
func (h *hasher) sum(tail uint64, n int) uint64 {
	h.word(tail | (h.length+uint64(n))<<56)
	h.v2 ^= 0xff
	for range 4 {
		h.round()
	}
	return h.v0 ^ h.v1 ^ h.v2 ^ h.v3
}

// bytes hashes b in one go.
func (h *hasher) bytes(b []byte) uint64 {
	for ; len(b) >= 8; b = b[8:] {
		h.word(binary.LittleEndian.Uint64(b))
	}
	var tail uint64
	for i, c := range b {
		tail |= uint64(c) << (8 * i)
	}
	return h.sum(tail, len(b))
}

// rootKey is the key of a domain's empty prefix.
func (s Secret) rootKey(d Domain) Key {
	h := s.hasher()
	return Key(h.bytes([]byte(d)))
}

// pageKey continues parent by one page of tokens.
func (s Secret) pageKey(parent Key, tokens []int32) Key {
	h := s.hasher()
	h.word(uint64(parent))
	for ; len(tokens) >= 2; tokens = tokens[2:] {
		h.word(uint64(uint32(tokens[0])) | uint64(uint32(tokens[1]))<<32)
	}
	if len(tokens) == 1 {
		return Key(h.sum(uint64(uint32(tokens[0])), 4))
	}
	return Key(h.sum(0, 0))
}
