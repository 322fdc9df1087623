package web

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/sidecar/alert"
	"github.com/kvwitness/kvwitness/sidecar/evidence"
	"github.com/kvwitness/kvwitness/sidecar/finding"
	"github.com/kvwitness/kvwitness/sidecar/ledger"
)

// maxLines is how many facts the timeline shows, and maxText how much of the JSON.
const (
	maxLines = 600
	maxText  = 200 << 10
)

// Line is a fact in the timeline, in the lane of what was claimed or in that of what
// was seen. A finding stands in both.
type Line struct {
	T       string // ms since the first fact
	Src     string
	Inst    string
	Text    string
	Seen    bool
	Finding string // its kind
	t       int64
}

// Told is a finding as a page shows it.
type Told struct {
	Kind, Severity, Inst, Req, Room, Pool, Pages, Claim, Observation string
	Meaning, Matters, Runbook                                        string
	Todo                                                             []string

	kind finding.Kind
}

// Exposed is whose data was, and by findings of which kinds.
type Exposed struct{ Inst, Req, Domain, Kinds string }

// Story is an incident as a page shows it.
type Story struct {
	Row
	Node, Req, Room, Head string
	Findings              []Told // the strongest first
	Exposed               []Exposed
	More                  int
	Lines                 []Line
	Left                  int
	Map                   *Drawn
	Holders               []evidence.Page
	Process               []evidence.Process
	Versions              evidence.Versions
	Losses                evidence.Losses
	Shadow                bool
	Closed                *evidence.Closing
	Commands              []string
	JSON                  string
	Cut                   bool
}

// Drawn is the map of that moment, as the script draws it.
type Drawn struct {
	PoolMap
	Marks string // runs of the finding's pages: first-count, first-count
}

// body is evidence.Body as it is read again.
type body struct {
	Part     string             `json:"part"`
	Versions evidence.Versions  `json:"versions"`
	Shadow   bool               `json:"shadow"`
	Findings []jsontext.Value   `json:"findings"`
	More     int                `json:"findings_left_out"`
	Facts    []jsontext.Value   `json:"facts"`
	Left     int                `json:"facts_left_out"`
	Map      *mapped            `json:"map"`
	Process  []evidence.Process `json:"processes"`
	Losses   evidence.Losses    `json:"losses"`
	By       string             `json:"by"`
	Why      string             `json:"why"`
	At       string             `json:"at"`
}

type mapped struct {
	Inst    string    `json:"inst"`
	Pool    string    `json:"pool"`
	Pages   int       `json:"pages"`
	States  []string  `json:"states"`
	Runs    [][2]int  `json:"runs"`
	Holders []holding `json:"holders"`
}

// holding is evidence.Page as it is read again.
type holding struct {
	Page    int    `json:"page"`
	Holder  *owner `json:"holder"`
	Held    bool   `json:"held"`
	Content *owner `json:"content"`
	Refs    int    `json:"refs"`
	Cached  bool   `json:"cached"`
}

type owner struct {
	Inst   string  `json:"inst"`
	Req    string  `json:"req"`
	Domain *string `json:"domain"`
}

func (o *owner) party() *finding.Party {
	if o == nil {
		return nil
	}
	p := &finding.Party{Inst: o.Inst, Req: o.Req}
	if o.Domain != nil {
		p.Domain = lifecycle.Some(*o.Domain)
	}
	return p
}

// told is a finding as it is read again.
type told struct {
	Kind        string   `json:"kind"`
	Severity    string   `json:"severity"`
	T           int64    `json:"t"`
	Inst        string   `json:"inst"`
	Req         string   `json:"req"`
	Room        string   `json:"room"`
	Pool        string   `json:"pool"`
	Pages       [][2]int `json:"pages"`
	Claim       string   `json:"claim"`
	Observation string   `json:"observation"`
	Exposed     []owner  `json:"exposed"`
}

// story makes a page of entries that were read whole.
func story(i *evidence.Incident, entries []evidence.Entry) *Story {
	s := &Story{Row: row(i), Node: i.Node, Req: i.Req, Room: i.Room, Head: i.Head}
	dec := lifecycle.NewJSONDecoder()
	var text bytes.Buffer
	var marks []string
	for _, e := range entries {
		text.Write(e.Body)
		text.WriteByte('\n')
		var b body
		if json.Unmarshal(e.Body, &b) != nil {
			continue // the JSON below is there all the same
		}
		if b.Part == "closed" {
			s.Closed = &evidence.Closing{Part: b.Part, At: b.At, By: b.By, Why: b.Why}
			continue
		}
		s.take(&b, dec, &marks)
	}
	s.Lines = sorted(s.Lines)
	slices.SortStableFunc(s.Findings, func(a, b Told) int { return cmp.Compare(a.kind, b.kind) })
	if len(s.Lines) > 0 {
		zero := s.Lines[0].t
		for n := range s.Lines {
			s.Lines[n].T = since(s.Lines[n].t, zero)
		}
	}
	if s.Map != nil {
		s.Map.Marks = strings.Join(marks, " ")
	}
	s.Commands = []string{
		"kvwitness findings show " + i.ID, "kvwitness findings export " + i.ID + " --out " + i.ID + ".jsonl",
		"kvwitness findings verify " + i.ID + ".jsonl --head " + i.Head, "kvwitness explain " + i.Kind.String(),
	}
	s.Cut = text.Len() > maxText
	s.JSON = strings.ToValidUTF8(string(text.Bytes()[:min(text.Len(), maxText)]), "")
	return s
}

// take adds an entry.
func (s *Story) take(b *body, dec *lifecycle.Decoder, marks *[]string) {
	s.Shadow, s.Versions, s.Losses = s.Shadow || b.Shadow, b.Versions, b.Losses
	s.More, s.Left = s.More+b.More, s.Left+b.Left
	if b.Process != nil {
		s.Process = b.Process
	}
	for _, raw := range b.Findings {
		var f told
		if json.Unmarshal(raw, &f) == nil {
			s.finding(&f, marks)
		}
	}
	for _, raw := range b.Facts {
		f, err := dec.Decode(raw)
		if err != nil {
			continue
		}
		if len(s.Lines) >= maxLines {
			s.Left++
			continue
		}
		s.Lines = append(s.Lines, Line{t: f.T, Src: f.Src.String(), Inst: f.Inst, Text: words(f), Seen: !f.Src.Claims()})
	}
	if b.Map != nil && s.Map == nil {
		s.Map = b.Map.drawn()
		for _, h := range b.Map.Holders {
			s.Holders = append(s.Holders, evidence.Page{Page: h.Page, Holder: h.Holder.party(), Held: h.Held, Content: h.Content.party(), Refs: h.Refs, Cached: h.Cached})
		}
	}
}

func (s *Story) finding(f *told, marks *[]string) {
	t := Told{
		Kind: f.Kind, Severity: f.Severity, Inst: f.Inst, Req: f.Req, Room: f.Room, Pool: f.Pool, Claim: f.Claim, Observation: f.Observation,
	}
	if k, known := finding.ByName(f.Kind); known {
		e := finding.Explain(k)
		t.kind, t.Meaning, t.Matters, t.Todo, t.Runbook = k, e.Meaning, e.Matters, e.Todo, alert.Runbooks+alert.Name(k)+".md"
	}
	var runs lifecycle.Runs
	for _, r := range f.Pages {
		runs = append(runs, lifecycle.Run{First: uint32(r[0]), Count: uint32(r[1])})
		*marks = append(*marks, fmt.Sprintf("%d-%d", r[0], r[1]))
	}
	t.Pages = runs.String()
	for _, o := range f.Exposed {
		e := Exposed{o.Inst, o.Req, "not known", ""}
		switch {
		case o.Domain != nil && *o.Domain == "":
			e.Domain = "shared by all"
		case o.Domain != nil:
			e.Domain = *o.Domain
		}
		s.expose(e, f.Kind)
	}
	s.Findings = append(s.Findings, t)
	s.Lines = append(s.Lines, Line{t: f.T, Inst: f.Inst, Text: f.Observation, Finding: f.Kind, Src: "kvwitness"})
}

// expose notes whose data was exposed, once.
func (s *Story) expose(e Exposed, kind string) {
	for n := range s.Exposed {
		o := &s.Exposed[n]
		if o.Inst == e.Inst && o.Req == e.Req && o.Domain == e.Domain {
			if !strings.Contains(o.Kinds, kind) {
				o.Kinds += ", " + kind
			}
			return
		}
	}
	e.Kinds = kind
	s.Exposed = append(s.Exposed, e)
}

// drawn makes cells of the runs of a map.
func (m *mapped) drawn() *Drawn {
	d := newDrawing(m.Pages)
	for _, r := range m.Runs {
		if r[0] < 0 || r[0] >= int(ledger.NumPageState) {
			continue
		}
		for range min(r[1], m.Pages) {
			d.page(ledger.PageLook{State: ledger.PageState(r[0])})
		}
	}
	d.close()
	return &Drawn{PoolMap: PoolMap{Inst: m.Inst, Pool: m.Pool, Pages: m.Pages, Per: d.per, Counts: d.named(), Cells: d.cells.String()}}
}

// words is a fact as people read it.
func words(f *lifecycle.Fact) string {
	var b strings.Builder
	b.WriteString(strings.ReplaceAll(f.Ev.String(), "_", " "))
	say := func(name, value string) {
		if value != "" {
			b.WriteString(" " + name + " " + value)
		}
	}
	say("of request", f.Req)
	say("room", f.Room)
	say("by", map[bool]string{true: f.By.String()}[f.By != lifecycle.ByNone])
	say("as", map[bool]string{true: f.Side.String()}[f.Side != lifecycle.SideNone])
	say("pages", short(f.Pages))
	say("from", f.From)
	say("peer", f.Peer)
	say("transfer", f.Xfer)
	if f.Ev == lifecycle.BytesMoved {
		fmt.Fprintf(&b, ": %d bytes at %#x", f.Bytes, f.Addr)
	}
	if f.Tokens.Has {
		fmt.Fprintf(&b, ", %d tokens", f.Tokens.V)
	}
	if f.PromptTokens.Has {
		fmt.Fprintf(&b, ", prompt of %d tokens", f.PromptTokens.V)
	}
	if f.HTTPStatus != 0 {
		fmt.Fprintf(&b, ", status %d", f.HTTPStatus)
	}
	say("because", f.Reason)
	return b.String()
}

// short are runs, not too many of them.
func short(runs lifecycle.Runs) string {
	if len(runs) > 16 {
		return fmt.Sprintf("%s and %d more", runs[:16], runs[16:].Pages())
	}
	return runs.String()
}
