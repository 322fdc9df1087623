package bpe

import (
	"unicode"
	"unicode/utf8"
)

// class of a character, as the patterns tell them apart.
type class uint8

const (
	other class = iota
	letter
	digit
	space
)

// classAt returns the class of the character at the beginning of a text, and its
// length. A byte that begins no character is one of class other.
func classAt(text []byte) (class, int) {
	r, n := utf8.DecodeRune(text)
	switch {
	case unicode.IsLetter(r):
		return letter, n
	case unicode.IsNumber(r):
		return digit, n
	case unicode.IsSpace(r):
		return space, n
	}
	return other, n
}

// words splits a text: each gets the words in order, which join to the text.
func words(text []byte, digitsAlone bool, each func(word []byte)) {
	for len(text) > 0 {
		end := len(text)
		if digitsAlone {
			if c, n := classAt(text); c == digit {
				each(text[:n])
				text = text[n:]
				continue
			}
			end = untilDigit(text)
		}
		for rest := text[:end]; len(rest) > 0; {
			n := word(rest)
			each(rest[:n])
			rest = rest[n:]
		}
		text = text[end:]
	}
}

// untilDigit is the length of what comes before the first digit.
func untilDigit(text []byte) int {
	for at := 0; at < len(text); {
		c, n := classAt(text[at:])
		if c == digit {
			return at
		}
		at += n
	}
	return len(text)
}

// contractions are words of their own, before anything else is tried.
var contractions = []string{"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"}

// word returns the length of the first word of a text that is not empty:
//
//	's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
func word(text []byte) int {
	for _, c := range contractions {
		if len(text) >= len(c) && string(text[:len(c)]) == c {
			return len(c)
		}
	}
	from := 0
	if text[0] == ' ' && len(text) > 1 {
		from = 1
	}
	kind, _ := classAt(text[from:])
	if kind != space {
		return from + run(text[from:], kind)
	}
	n := run(text, space)
	if n == len(text) {
		return n
	}
	// All but the last one, which goes with what follows; one alone stays itself.
	_, last := utf8.DecodeLastRune(text[:n])
	if n > last {
		return n - last
	}
	return n
}

// run is the length of the characters of one class at the beginning of a text.
func run(text []byte, want class) int {
	at := 0
	for at < len(text) {
		c, n := classAt(text[at:])
		if c != want {
			break
		}
		at += n
	}
	return at
}
