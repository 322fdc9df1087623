package canary

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// Prompts hold an entry for about so many bytes, within these bounds.
const (
	bytesPerEntry = 72
	minEntries    = 3
	maxEntries    = 64
	// LeastBytes is the shortest prompt.
	LeastBytes = 240
	// AnswerTokens is how long answers may be: enough for a marker, spelled out,
	// and to reach one that follows other text.
	AnswerTokens = 80
)

// filler has no colon: what follows one in a prompt is a marker.
var filler = strings.Fields("amber birch cedar delta ember fjord grove haven inlet jetty knoll larch maple north ocean pearl quill river stone tulip umber vales woods yards zonal")

// Prompt is one question, and the markers in it.
type Prompt struct {
	Text    string
	Markers []string
	Want    string // the marker that is asked for
}

// Depth says which of a prompt's entries is asked for, from 0, its first, to 1.
type Depth float64

// Depths are asked for in turn.
var Depths = []Depth{0, 0.5, 1}

// NewPrompt draws a prompt of about so many bytes. It begins with a word of its own,
// so that no prefix cache knows it.
func NewPrompt(rng *rand.Rand, bytes int, depth Depth) Prompt {
	entries := min(max(bytes/bytesPerEntry, minEntries), maxEntries)
	p := Prompt{}
	ids := make([]string, entries)
	asked := int(float64(depth) * float64(entries-1))
	var b strings.Builder
	fmt.Fprintf(&b, "Register %s.\n", word(rng, idLength))
	closing := 2*idLength + len("Repeat the entry  exactly.\nEntry :")
	room := (bytes - b.Len() - closing - entries*(idLength+markerLength+len("Entry : \n"))) / entries
	for i := range ids {
		ids[i] = word(rng, idLength)
		p.Markers = append(p.Markers, word(rng, markerLength))
		fill(&b, rng, room)
		fmt.Fprintf(&b, "Entry %s: %s\n", ids[i], p.Markers[i])
	}
	// It ends with no space: a marker's first token has it, as in the entry itself.
	fmt.Fprintf(&b, "Repeat the entry %[1]s exactly.\nEntry %[1]s:", ids[asked])
	p.Text, p.Want = b.String(), p.Markers[asked]
	return p
}

// fill writes words of about so many bytes, a line of its own.
func fill(b *strings.Builder, rng *rand.Rand, bytes int) {
	written := 0
	for written+6 < bytes {
		w := filler[rng.IntN(len(filler))]
		b.WriteString(w + " ")
		written += len(w) + 1
	}
	if written > 0 {
		b.WriteString("\n")
	}
}

// Scale is how many tokens a prompt has, learnt of two that were asked.
type Scale struct {
	PerByte, Offset float64
	Known           bool
}

// learn takes two prompts' bytes and tokens.
func learn(bytes, tokens [2]int) Scale {
	if tokens[0] > 0 && tokens[1] == 0 { // the longer one was refused
		return Scale{PerByte: float64(tokens[0]) / float64(bytes[0])}
	}
	if tokens[0] <= 0 || tokens[1] <= tokens[0] || bytes[1] <= bytes[0] {
		return Scale{PerByte: 0.4}
	}
	per := float64(tokens[1]-tokens[0]) / float64(bytes[1]-bytes[0])
	return Scale{PerByte: per, Offset: float64(tokens[0]) - per*float64(bytes[0]), Known: true}
}

// Bytes of a prompt of so many tokens.
func (s Scale) Bytes(tokens int) int {
	return max(LeastBytes, int((float64(tokens)-s.Offset)/s.PerByte))
}

// Tokens of a prompt of so many bytes.
func (s Scale) Tokens(bytes int) int { return int(s.Offset + s.PerByte*float64(bytes)) }

// Right reports whether a count of tokens can be that of a prompt of so many bytes:
// words are not all of one length in tokens, but a prompt that was replaced is far off.
func (s Scale) Right(bytes, tokens int) bool {
	want := s.Offset + s.PerByte*float64(bytes)
	return !s.Known || tokens == 0 || abs(float64(tokens)-want) <= max(32, want/8)
}

func abs(x float64) float64 { return max(x, -x) }
