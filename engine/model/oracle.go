package model

import "slices"

// Expect returns the bytes with which the built-in network answers a prompt, at
// most maxTokens of them, by comparing strings: no weights, no attention. It is
// what a test holds a real answer against, byte by byte.
func Expect(prompt []byte, maxTokens int) []byte {
	tokens, _ := ExpectTokens(Encode(prompt), maxTokens)
	return Decode(tokens)
}

// ExpectTokens is Expect for a prompt with specials (a chat). ended says that the
// answer ends there by itself: EOT would come next, which is not in it.
func ExpectTokens(prompt []Token, maxTokens int) (answer []Token, ended bool) {
	text := slices.Clone(prompt)
	for range maxTokens {
		next := follow(text)
		if next == EOT {
			return text[len(prompt):], true
		}
		text = append(text, next)
	}
	return text[len(prompt):], false
}

// follow returns what followed the first occurrence of the longest suffix of a
// text, of at most Suffix tokens.
func follow(text []Token) Token {
	for length := min(Suffix, len(text)-1); length > 0; length-- {
		suffix := text[len(text)-length:]
		for at := length; at < len(text); at++ {
			if slices.Equal(text[at-length:at], suffix) {
				return text[at]
			}
		}
	}
	if text[len(text)-1] == '\n' {
		return EOT
	}
	return '\n'
}
