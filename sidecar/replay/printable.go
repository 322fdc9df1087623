package replay

import (
	"strings"
	"unicode"
)

// maxShown is the longest name that people are shown whole, in runes.
const maxShown = 80

// printable is text from a trace as it may stand on a terminal: control and
// formatting characters, which could move the cursor or turn the text around,
// become '?', and what is very long is cut.
func printable(s string) string {
	shown := 0
	return strings.Map(func(r rune) rune {
		switch shown++; {
		case shown == maxShown:
			return '…'
		case shown > maxShown:
			return -1
		case !unicode.IsPrint(r):
			return '?'
		}
		return r
	}, s)
}

// sentence is printable for claims and observations, which the ledger makes of
// names; they are wrapped and so not cut.
func sentence(s string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, s)
}
