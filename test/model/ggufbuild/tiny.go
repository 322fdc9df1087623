package ggufbuild

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
)

// Template is the chat template of the ChatML family, with what it says first.
const Template = "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system\n" +
	"Be brief<|im_end|>\n' }}{% endif %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}" +
	"{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"

// Merges of the small vocabulary: each makes a token.
var Merges = []string{"a b", "Ġ ab", "ab c", "t h", "th e", "Ġ the", "a a", "aa aa", "Ġ Ġ", "Ċ Ċ"}

// The specials of the small vocabulary, in the order of their numbers.
const (
	EndOfText = iota
	StartOfTurn
	EndOfTurn
	specials
)

// Spell spells bytes as such files do, by the table of the GPT-2 tokenizer.
func Spell(text []byte) string {
	var out []rune
	for _, b := range text {
		out = append(out, spelling(b))
	}
	return string(out)
}

func spelling(b byte) rune {
	switch {
	case b <= 0x20:
		return 0x100 + rune(b)
	case b >= 0x7f && b <= 0xa0:
		return 0x121 + rune(b-0x7f)
	case b == 0xad:
		return 0x143
	}
	return rune(b)
}

// Vocabulary adds a small vocabulary: three specials, a token for each byte that is
// not left out, and one for each of Merges.
func (b *Builder) Vocabulary(leftOut ...byte) *Builder {
	tokens, kinds := []string{"<|endoftext|>", "<|im_start|>", "<|im_end|>"}, []int32{3, 3, 3}
	add := func(token string) { tokens, kinds = append(tokens, token), append(kinds, 1) }
	skip := map[byte]bool{}
	for _, l := range leftOut {
		skip[l] = true
	}
	for c := range 256 {
		if !skip[byte(c)] {
			add(Spell([]byte{byte(c)}))
		}
	}
	for _, m := range Merges {
		var left, right string
		_, _ = fmt.Sscan(m, &left, &right) // of constants
		add(left + right)
	}
	return b.Key("tokenizer.ggml.model", "gpt2").Key("tokenizer.ggml.pre", "smollm").
		Key("tokenizer.ggml.tokens", tokens).Key("tokenizer.ggml.token_type", kinds).Key("tokenizer.ggml.merges", Merges).
		Key("tokenizer.ggml.bos_token_id", uint32(StartOfTurn)).Key("tokenizer.ggml.eos_token_id", uint32(EndOfTurn)).
		Key("tokenizer.chat_template", Template)
}

// VocabularySize is the number of its tokens, where no byte is left out.
func VocabularySize() int { return specials + 256 + len(Merges) }

// The small network's shape.
const (
	Layers  = 2
	Dim     = 64
	Hidden  = 96
	Heads   = 4
	KVHeads = 2
	Context = 512
)

// Network adds a small network with random weights, of a type by the format's
// number.
func (b *Builder) Network(r *rand.Rand, kind uint32) *Builder {
	const headDim = Dim / Heads
	b.Key("general.architecture", "llama").Key("general.name", "tiny").
		Key("llama.block_count", uint32(Layers)).Key("llama.context_length", uint32(Context)).
		Key("llama.embedding_length", uint32(Dim)).Key("llama.feed_forward_length", uint32(Hidden)).
		Key("llama.attention.head_count", uint32(Heads)).Key("llama.attention.head_count_kv", uint32(KVHeads)).
		Key("llama.rope.freq_base", float32(10000)).Key("llama.attention.layer_norm_rms_epsilon", float32(1e-5))
	matrix := func(name string, in, out int) {
		b.Tensor(name, kind, Weights(r, kind, in*out), in, out)
	}
	vector := func(name string) { b.Tensor(name, 0, Weights(r, 0, Dim), Dim) }
	matrix("token_embd.weight", Dim, VocabularySize())
	for i := range Layers {
		of := fmt.Sprintf("blk.%d.", i)
		vector(of + "attn_norm.weight")
		matrix(of+"attn_q.weight", Dim, Dim)
		matrix(of+"attn_k.weight", Dim, KVHeads*headDim)
		matrix(of+"attn_v.weight", Dim, KVHeads*headDim)
		matrix(of+"attn_output.weight", Dim, Dim)
		vector(of + "ffn_norm.weight")
		matrix(of+"ffn_gate.weight", Dim, Hidden)
		matrix(of+"ffn_up.weight", Dim, Hidden)
		matrix(of+"ffn_down.weight", Hidden, Dim)
	}
	vector("output_norm.weight")
	return b
}

// Weights are n random numbers of moderate size, stored as a type has them.
func Weights(r *rand.Rand, kind uint32, n int) []byte {
	var out []byte
	single := func() uint32 { return math.Float32bits(float32(r.NormFloat64() / 4)) }
	half := func(exponent uint16) uint16 { return exponent<<10 | uint16(r.UintN(1024)) }
	switch kind {
	case 0: // F32
		for range n {
			out = binary.LittleEndian.AppendUint32(out, single())
		}
	case 1: // F16: between 1/8 and 1/4, of both signs
		for range n {
			out = binary.LittleEndian.AppendUint16(out, half(12)|uint16(r.UintN(2))<<15)
		}
	case 3: // Q4_1: steps of about 1/24 from about -1/3 on
		for range n / 32 {
			out = binary.LittleEndian.AppendUint16(out, half(10))
			out = binary.LittleEndian.AppendUint16(out, half(13)|1<<15)
			out = appendRandom(out, r, 16)
		}
	case 8: // Q8_0: steps of about 1/340
		for range n / 32 {
			out = binary.LittleEndian.AppendUint16(out, half(6))
			out = appendRandom(out, r, 32)
		}
	case 30: // BF16
		for range n {
			out = binary.LittleEndian.AppendUint16(out, uint16(single()>>16))
		}
	default:
		panic(fmt.Sprintf("no random numbers of type %d", kind))
	}
	return out
}

func appendRandom(out []byte, r *rand.Rand, n int) []byte {
	for range n {
		out = append(out, byte(r.Uint32()))
	}
	return out
}
