package model

import "errors"

// Token is a byte (0 to 255) or one of the specials above it.
type Token int32

const (
	// EOT ends a text: a turn of a chat, and an answer.
	EOT Token = 256
	// BOS stands where a sequence would be empty: no sequence has no token.
	BOS Token = 257
	// Vocab is the number of tokens of the built-in network.
	Vocab = 258
)

// ErrToken says that a token is not in the vocabulary.
var ErrToken = errors.New("token is not in the vocabulary")

// Encode returns one token a byte; for an empty text, BOS alone.
func Encode(text []byte) []Token {
	if len(text) == 0 {
		return []Token{BOS}
	}
	out := make([]Token, len(text))
	for i, b := range text {
		out[i] = Token(b)
	}
	return out
}

// EncodeTurns joins the messages of a chat with EOT between them. The last one is
// left open: the answer continues it, and ends where an earlier message that went
// on the same way had ended.
func EncodeTurns(messages ...[]byte) []Token {
	var out []Token
	for i, m := range messages {
		if i > 0 {
			out = append(out, EOT)
		}
		for _, b := range m {
			out = append(out, Token(b))
		}
	}
	if len(out) == 0 {
		return []Token{BOS}
	}
	return out
}

// Decode returns the bytes among the tokens; the specials have none.
func Decode(tokens []Token) []byte {
	out := make([]byte, 0, len(tokens))
	for _, t := range tokens {
		if b, ok := t.Byte(); ok {
			out = append(out, b)
		}
	}
	return out
}

// Byte returns the token's byte; ok is false for a special.
func (t Token) Byte() (b byte, ok bool) {
	if t < 0 || t > 255 {
		return 0, false
	}
	return byte(t), true
}
