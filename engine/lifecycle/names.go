package lifecycle

import "hash/maphash"

// maxNames is how many names a Decoder keeps. A request is named in a dozen
// facts within a short time; a later name takes the place of an earlier one.
const maxNames = 1 << 12

// names keeps the names that were decoded last, so that facts which name the
// same thing share one copy of it.
type names struct {
	seed maphash.Seed
	kept []string // by hash, modulo maxNames
}

func newNames() names { return names{maphash.MakeSeed(), make([]string, maxNames)} }

// of is b as a string.
func (n *names) of(b []byte) string {
	slot := &n.kept[maphash.Bytes(n.seed, b)%maxNames]
	if *slot != string(b) {
		*slot = string(b)
	}
	return *slot
}
