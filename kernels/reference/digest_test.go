package reference

import (
	"encoding/binary"
	"math/big"
	"testing"
)

// digestByDefinition follows the definition word by word in big integers, lane by
// lane and backwards: slow, and sharing no line with the real one.
func digestByDefinition(l Layout, page []byte, tokens int, b Binding) uint64 {
	two64 := new(big.Int).Lsh(big.NewInt(1), 64)
	word := func(x uint64) *big.Int { return new(big.Int).SetUint64(x) }
	mod := func(x *big.Int) *big.Int { return x.Mod(x, two64) }
	fold := func(x *big.Int) *big.Int { return new(big.Int).Xor(x, new(big.Int).Rsh(x, 32)) }
	mixBig := func(x *big.Int) *big.Int {
		m := word(0xd6e8feb86659fd93)
		x = mod(new(big.Int).Mul(fold(x), m))
		x = mod(new(big.Int).Mul(fold(x), m))
		return fold(x)
	}
	s := mod(new(big.Int).Add(mixBig(word(b.Key[0])), word(b.Key[1])))
	for _, x := range []uint64{uint64(b.Position), uint64(b.Layer)<<32 | uint64(b.Part), b.Generation, uint64(tokens)} {
		s = mod(new(big.Int).Add(mixBig(new(big.Int).Xor(s, word(x))), word(b.Key[1])))
	}
	sum := mixBig(s)
	row, perHead := l.HeadDim*l.DType.Size(), l.PageTokens*l.HeadDim*l.DType.Size()
	for i := len(page)/8 - 1; i >= 0; i-- {
		if 8*i%perHead/row >= tokens {
			continue
		}
		key := mod(new(big.Int).Add(s, new(big.Int).Mul(big.NewInt(int64(i)), word(0x9e3779b97f4a7c15))))
		sum.Add(sum, mixBig(new(big.Int).Xor(word(binary.LittleEndian.Uint64(page[8*i:])), key)))
	}
	return mod(sum).Uint64()
}

var digestLayouts = []Layout{
	{Float32, 16, 2, 8}, {BFloat16, 16, 1, 8}, {BFloat16, 17, 3, 24}, {Float32, 64, 2, 64},
}

// Promise: the digest is what its definition says, for whole and partial pages.
func TestDigestFollowsItsDefinition(t *testing.T) {
	r := random(t)
	for _, l := range digestLayouts {
		page := region(t, l, 1, l.PageBytes())
		for range 5 {
			b := Binding{[2]uint64{r.Uint64(), r.Uint64()}, r.IntN(1 << 20), r.IntN(100), PartV, r.Uint64()}
			tokens := r.IntN(l.PageTokens + 1)
			if got, want := l.Digest(page, tokens, b), digestByDefinition(l, page, tokens, b); got != want {
				t.Fatalf("%+v, %d tokens: %016x, want %016x", l, tokens, got, want)
			}
		}
	}
}

// Promise: these values do not change: another implementation, and a peer of
// another release, computes the same.
func TestDigestVectors(t *testing.T) {
	l := Layout{Float32, 16, 2, 8}
	page := make([]byte, l.PageBytes())
	for i := range page {
		page[i] = byte(i * 7)
	}
	b := Binding{Key: [2]uint64{0x0123456789abcdef, 0xfedcba9876543210}, Position: 3, Layer: 1, Part: PartK, Generation: 42}
	for _, c := range []struct {
		tokens int
		want   uint64
	}{{0, 0x62b81d7ce694b1e5}, {5, 0x8dbe53787754ee06}, {16, 0xf602bd476019362b}} {
		if got := l.Digest(page, c.tokens, b); got != c.want {
			t.Errorf("%d tokens: %#016x, want %#016x", c.tokens, got, c.want)
		}
	}
}

// Promise: one flipped bit anywhere in the counted rows is seen; none outside.
func TestDigestSeesEveryFlippedBit(t *testing.T) {
	for _, l := range digestLayouts[:3] {
		page := region(t, l, 1, l.PageBytes())
		tokens := l.PageTokens - 3
		b := Binding{Key: [2]uint64{1, 2}, Part: PartK, Generation: 1}
		want := l.Digest(page, tokens, b)
		for i := range len(page) * 8 {
			page[i/8] ^= 1 << (i % 8)
			counted := i/8%l.HeadBytes()/l.RowBytes() < tokens
			if got := l.Digest(page, tokens, b); (got != want) != counted {
				t.Fatalf("%+v: bit %d, counted %v: digest changed %v", l, i, counted, got != want)
			}
			page[i/8] ^= 1 << (i % 8)
		}
	}
}

// Promise: the digest binds position, layer, part, generation, length and key.
func TestDigestBindsWhatItIsAbout(t *testing.T) {
	l := digestLayouts[0]
	page := make([]byte, l.PageBytes())
	base := Binding{Key: [2]uint64{1, 2}, Position: 1, Layer: 1, Part: PartK, Generation: 1}
	seen := map[uint64]string{l.Digest(page, 16, base): "base", l.Digest(page, 15, base): "length"}
	for name, change := range map[string]func(*Binding){
		"first key":  func(b *Binding) { b.Key[0]++ },
		"second key": func(b *Binding) { b.Key[1]++ },
		"position":   func(b *Binding) { b.Position++ },
		"layer":      func(b *Binding) { b.Layer++ },
		"part":       func(b *Binding) { b.Part = PartV },
		"generation": func(b *Binding) { b.Generation++ },
	} {
		b := base
		change(&b)
		d := l.Digest(page, 16, b)
		if other, ok := seen[d]; ok {
			t.Errorf("%s and %s have the same digest", name, other)
		}
		seen[d] = name
	}
	if len(seen) != 8 {
		t.Errorf("%d different digests, want 8", len(seen))
	}
}

// Promise: bytes that changed places are seen: two lanes, two words of a lane.
func TestDigestSeesMovedBytes(t *testing.T) {
	l := digestLayouts[0]
	b := Binding{Key: [2]uint64{1, 2}, Part: PartK, Generation: 1}
	page := region(t, l, 1, l.PageBytes())
	want := l.Digest(page, 16, b)
	for i := 0; i+16 <= len(page); i += 8 {
		var word [8]byte
		copy(word[:], page[i:])
		copy(page[i:], page[i+8:i+16])
		copy(page[i+8:], word[:])
		if l.Digest(page, 16, b) == want {
			t.Fatalf("words %d and %d may change places", i/8, i/8+1)
		}
		copy(word[:], page[i:])
		copy(page[i:], page[i+8:i+16])
		copy(page[i+8:], word[:])
	}
}

func BenchmarkDigest(b *testing.B) {
	l := Layout{Float32, 64, 2, 64}
	page := make([]byte, l.PageBytes())
	b.SetBytes(int64(len(page)))
	for b.Loop() {
		l.Digest(page, l.PageTokens, Binding{Generation: 1})
	}
}
