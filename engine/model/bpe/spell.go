package bpe

// firstStandIn is the letter that stands for the first byte that has no visible
// letter of its own; the others follow.
const firstStandIn = 0x100

// letters are the letters in which a file spells bytes: a byte that is a visible
// character of Latin-1 is spelled by itself, the others by letters of their own.
var letters = func() map[rune]byte {
	all, next := map[rune]byte{}, rune(firstStandIn)
	for b := range rune(256) {
		if b > ' ' && b < 0x7f || b > 0xa0 && b != 0xad {
			all[b] = byte(b)
			continue
		}
		all[next] = byte(b)
		next++
	}
	return all
}()

// unspell returns the bytes of a spelled token.
func unspell(s string) ([]byte, bool) {
	out := make([]byte, 0, len(s))
	for _, r := range s {
		b, ok := letters[r]
		if !ok {
			return nil, false
		}
		out = append(out, b)
	}
	return out, len(out) > 0
}
