package evidence

import (
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/sidecar/finding"
)

// Bounds of a body.
const (
	// MaxFacts is how many facts one entry holds; beyond it the first and the last
	// ones are there.
	MaxFacts = 2000
	// MaxFindings is how many findings of an incident are told one by one.
	MaxFindings  = 64
	maxFactBytes = 3 << 20
	maxFactSize  = 64 << 10
	maxFindSize  = 64 << 10
)

// Body is what an entry holds. The facts are those of format v1, whose src says
// whether each is a claim or an observation.
type Body struct {
	Part     string           `json:"part"` // opened, or completed
	Node     string           `json:"node"`
	Boot     string           `json:"boot,omitzero"`
	Zero     string           `json:"wall,omitzero"` // wall clock where the facts' t is 0
	At       string           `json:"at"`            // wall clock now
	Versions Versions         `json:"versions"`
	Shadow   bool             `json:"shadow,omitzero"`
	Findings []jsontext.Value `json:"findings,omitempty"`
	More     int              `json:"findings_left_out,omitzero"`
	Since    int64            `json:"facts_since"` // t from which on all facts were remembered, ns
	Facts    []jsontext.Value `json:"facts,omitempty"`
	Left     int              `json:"facts_left_out,omitzero"`
	Map      *Map             `json:"map,omitempty"`
	Engines  jsontext.Value   `json:"state,omitempty"` // of engines, witness and judge
	Process  []Process        `json:"processes,omitempty"`
	Losses   Losses           `json:"losses"`
}

// Versions say what was running.
type Versions struct {
	Witness string `json:"kvwitness"`
	Kernel  string `json:"kernel,omitzero"`
	Driver  string `json:"gpu_driver"` // "none" where there is none
}

// Losses are what this witness did not see, or could not keep, until now.
type Losses struct {
	Unkept  uint64 `json:"facts_not_remembered"`   // they came too fast for the evidence
	Skipped uint64 `json:"incidents_not_recorded"` // they were too many
}

// Map is the pages of a pool at one moment.
type Map struct {
	Inst    string   `json:"inst"`
	Pool    string   `json:"pool"`
	Pages   int      `json:"pages"`
	States  []string `json:"states"`
	Runs    [][2]int `json:"runs"` // state and number of pages, from page 0 on
	Left    int      `json:"pages_left_out,omitzero"`
	Holders []Page   `json:"holders,omitempty"` // of the finding's pages
}

// Page is who holds a page, and whose data lie in it.
type Page struct {
	Page    int            `json:"page"`
	Holder  *finding.Party `json:"holder,omitempty"`
	Held    bool           `json:"held"`
	Content *finding.Party `json:"content,omitempty"`
	Refs    int            `json:"refs,omitzero"`
	Cached  bool           `json:"cached,omitzero"`
}

// encoded is the body as JSON. It leaves out facts where it would be too large.
func (b *Body) encoded() ([]byte, error) {
	return json.Marshal(b, json.Deterministic(true), jsontext.AllowInvalidUTF8(true))
}

// finding takes in one.
func (b *Body) finding(f *finding.Finding) {
	if len(b.Findings) >= MaxFindings {
		b.More++
		return
	}
	text, err := json.Marshal(f, json.Deterministic(true), jsontext.AllowInvalidUTF8(true))
	if err == nil && len(text) > maxFindSize {
		short := *f
		short.Pages, short.Exposed = f.Pages[:min(len(f.Pages), 256)], f.Exposed[:min(len(f.Exposed), 256)]
		text, err = json.Marshal(&short, json.Deterministic(true), jsontext.AllowInvalidUTF8(true))
		b.More++
	}
	if err == nil {
		b.Findings = append(b.Findings, text)
	}
}

// gathered are the facts of an entry, bounded in number and bytes: the first and the
// last ones.
type gathered struct {
	first, last []jsontext.Value
	bytes, left int
}

func (g *gathered) add(f *lifecycle.Fact) {
	text := f.AppendJSON(nil)
	if len(text) > maxFactSize {
		short := *f
		short.Pages, short.Spec = nil, nil
		if text = short.AppendJSON(nil); len(text) > maxFactSize {
			g.left++
			return
		}
		g.left++
	}
	text = []byte(strings.ToValidUTF8(string(text), "\ufffd"))
	g.bytes += len(text)
	if len(g.first) < MaxFacts/4 && g.bytes < maxFactBytes/2 {
		g.first = append(g.first, text)
		return
	}
	g.last = append(g.last, text)
	for len(g.first)+len(g.last) > MaxFacts || g.bytes > maxFactBytes {
		g.bytes -= len(g.last[0])
		g.last[0] = nil
		g.last = g.last[1:]
		g.left++
	}
}

func (g *gathered) into(b *Body) { b.Facts, b.Left = append(g.first, g.last...), g.left }
