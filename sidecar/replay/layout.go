package replay

import (
	"strings"
	"unicode/utf8"
)

// Wrap breaks text into lines of at most width runes, between words where it
// can and within a word where it must.
func Wrap(text string, width int) []string {
	width = max(width, 1)
	var lines []string
	line := ""
	for _, word := range strings.Fields(text) {
		for utf8.RuneCountInString(word) > width {
			if line != "" {
				lines, line = append(lines, line), ""
			}
			head, tail := cut(word, width)
			lines, word = append(lines, head), tail
		}
		switch {
		case line == "":
			line = word
		case utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) <= width:
			line += " " + word
		default:
			lines, line = append(lines, line), word
		}
	}
	if line != "" {
		lines = append(lines, line)
	}
	return lines
}

// cut parts a word after n runes.
func cut(word string, n int) (head, tail string) {
	for i := range word {
		if n == 0 {
			return word[:i], word[i:]
		}
		n--
	}
	return word, ""
}

// narrow is the width in runes below which two columns become one.
const narrow = 64

// sideBySide sets two headed texts in two columns, or one above the other
// where the width does not allow that.
func sideBySide(leftHead, left, rightHead, right string, width int) []string {
	if width < narrow {
		lines := indented(leftHead, left, width)
		return append(lines, indented(rightHead, right, width)...)
	}
	const gap = 3
	column := (width - gap) / 2
	l := indented(leftHead, left, column)
	r := indented(rightHead, right, width-gap-column)
	lines := make([]string, max(len(l), len(r)))
	for i := range lines {
		if i < len(l) {
			lines[i] = l[i]
		}
		if i < len(r) {
			lines[i] += strings.Repeat(" ", column+gap-utf8.RuneCountInString(lines[i])) + r[i]
		}
	}
	return lines
}

// indented is a head with its text below it.
func indented(head, text string, width int) []string {
	lines := []string{head}
	for _, line := range Wrap(text, width-2) {
		lines = append(lines, "  "+line)
	}
	return lines
}
