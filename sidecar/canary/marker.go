package canary

import (
	"math"
	"math/rand/v2"
	"strings"
)

// A marker is letters and digits drawn at random; a part of it is a run of partLength
// of them.
const (
	alphabet     = "abcdefghijkmnpqrstuvwxyz23456789" // 32, without l, o, 0 and 1
	markerLength = 20
	partLength   = 10
	idLength     = 8
	// MaxMarkers bounds the markers of a tenant that are looked for; older ones go.
	MaxMarkers = 4096
)

func word(rng *rand.Rand, n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = alphabet[rng.IntN(len(alphabet))]
	}
	return string(b)
}

// plain is a text without all that a model or a stream may change of a marker:
// case, spaces, hyphens, quotes.
func plain(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z' || r >= '0' && r <= '9':
			return r
		case r >= 'A' && r <= 'Z':
			return r + 'a' - 'A'
		}
		return -1
	}, text)
}

// Markers are those that a tenant has sent.
type Markers struct {
	kept  []string // oldest first
	parts map[string]int
}

// Add notes a marker.
func (m *Markers) Add(marker string) {
	if m.parts == nil {
		m.parts = map[string]int{}
	}
	if len(m.kept) == MaxMarkers {
		for _, p := range parts(m.kept[0]) {
			if m.parts[p]--; m.parts[p] == 0 {
				delete(m.parts, p)
			}
		}
		m.kept = m.kept[1:]
	}
	m.kept = append(m.kept, marker)
	for _, p := range parts(marker) {
		m.parts[p]++
	}
}

func parts(marker string) (all []string) {
	for i := 0; i+partLength <= len(marker); i++ {
		all = append(all, marker[i:i+partLength])
	}
	return all
}

// In reports whether a text holds a part of a marker, however it is written.
func (m *Markers) In(text string) bool {
	if len(m.parts) == 0 {
		return false
	}
	text = plain(text)
	for i := 0; i+partLength <= len(text); i++ {
		if m.parts[text[i:i+partLength]] > 0 {
			return true
		}
	}
	return false
}

// Odds is the common logarithm of the chance that random text of so many characters
// holds a part of one of so many markers: by how much a false alarm is unlikely.
func Odds(characters, markers int) float64 {
	if characters == 0 || markers == 0 {
		return math.Inf(-1)
	}
	ways := float64(characters) * float64(markers) * (markerLength - partLength + 1)
	return min(0, math.Log10(ways)-partLength*math.Log10(float64(len(alphabet))))
}
