package sim

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/sidecar/finding"
)

// Judge says what is wrong with a whole trace.
type Judge func(facts []*lifecycle.Fact) ([]finding.Finding, []finding.Verdict)

// Objection is why a judge's word on a trace is not what it must be.
type Objection struct {
	Class string   // which promise is broken, for telling objections apart
	Lines []string // what differs
}

func (o *Objection) Error() string { return o.Class + "\n  " + strings.Join(o.Lines, "\n  ") }

func object(class, format string, args ...any) *Objection {
	return &Objection{class, []string{fmt.Sprintf(format, args...)}}
}

// CheckValid holds a judge to valid traffic: no finding but blind ones for
// gaps and those of synthetic warm-ups, and the verdicts that are deserved.
func (t *Trace) CheckValid(findings []finding.Finding, verdicts []finding.Verdict) *Objection {
	open := Deserved{Verdicts: maps.Clone(t.Expected), Blind: t.Blind}
	if o := open.takeFindings(findings); o != nil {
		return o
	}
	if o := open.takeVerdicts(verdicts); o != nil {
		return o
	}
	return open.rest()
}

// Deserved is what valid traffic still deserves: what is given is taken off.
type Deserved struct {
	Verdicts map[verdictKey]Expected
	Blind    int
	early    map[verdictKey]finding.Verdict // given before it was known what is deserved
}

func (d *Deserved) takeFindings(findings []finding.Finding) *Objection {
	for i := range findings {
		f := &findings[i]
		switch {
		case f.Synthetic:
		case f.Kind == finding.Blind && d.Blind > 0:
			d.Blind--
		default:
			return object("valid traffic gives "+f.Kind.String(), "%s; claim: %s; observation: %s; t %d", findingKey(f), f.Claim, f.Observation, f.T)
		}
	}
	return nil
}

func (d *Deserved) takeVerdicts(verdicts []finding.Verdict) *Objection {
	if d.early == nil {
		d.early = map[verdictKey]finding.Verdict{}
	}
	for i := range verdicts {
		v := &verdicts[i]
		if v.Verdict == finding.Violated && !v.Synthetic {
			return object("valid traffic is violated", "%s: %s", verdictLine(v), v.Why)
		}
		key := verdictKey{v.Room, v.Inst, ""}
		if v.Room == "" {
			key.req = v.Req
		}
		want, some := d.Verdicts[key]
		if !some {
			d.early[key] = *v
			continue
		}
		delete(d.Verdicts, key)
		if o := want.check(v); o != nil {
			return o
		}
	}
	return nil
}

func (e Expected) check(v *finding.Verdict) *Objection {
	if e.allows(v.Verdict) {
		return nil
	}
	return object(fmt.Sprintf("valid traffic is %s instead of %s", v.Verdict, e), "%s: %s", verdictLine(v), v.Why)
}

// rest objects to what was never given.
func (d *Deserved) rest() *Objection {
	if d.Blind > 0 {
		return object("a gap gives no blind finding", "%d are missing", d.Blind)
	}
	for key, want := range d.Verdicts {
		if v, some := d.early[key]; some {
			if o := want.check(&v); o != nil {
				return o
			}
		} else if want != Innocent {
			return object("a request has no verdict", "room %q, inst %q, req %q: should be %s", key.room, key.inst, key.req, want)
		}
	}
	return nil
}

func (e Expected) String() string {
	return [...]string{"innocent", "clean", "unwitnessed"}[e]
}

// CheckFault holds a judge to a trace with one fault: it is found where it
// is, and nothing is found that does not follow from it.
func (t *Trace) CheckFault(findings []finding.Finding) *Objection {
	k := t.Struck
	found := false
	for i := range findings {
		f := &findings[i]
		if k.Want.met(f) {
			found = true
		}
		if f.Kind != k.Fault.Kind && !slices.Contains(k.Fault.Beside, f.Kind) && !f.Synthetic {
			return object(fmt.Sprintf("%s gives %s", k.Fault.Name, f.Kind), "%s; claim: %s; observation: %s; t %d", findingKey(f), f.Claim, f.Observation, f.T)
		}
	}
	if !found {
		o := object(k.Fault.Name+" is not found", "wanted %+v", k.Want)
		for i := range findings {
			o.Lines = append(o.Lines, "found "+findingKey(&findings[i]))
		}
		return o
	}
	return nil
}

// met reports whether a finding is the wanted one.
func (w *Want) met(f *finding.Finding) bool {
	same := func(want, got string) bool { return want == "" || want == got }
	if f.Kind != w.Kind || !same(w.Inst, f.Inst) || !same(w.Req, f.Req) || !same(w.Room, f.Room) || !same(w.Pool, f.Pool) {
		return false
	}
	got := pageSet(lifecycle.Runs(f.Pages))
	for id := range pageSet(w.Pages) {
		if !got[id] {
			return false
		}
	}
	return true
}

func pageSet(rs lifecycle.Runs) map[uint32]bool {
	set := map[uint32]bool{}
	for _, r := range rs {
		for id := r.First; id < r.End(); id++ {
			set[id] = true
		}
	}
	return set
}

// CheckAgree holds two judges against each other: the same findings (kind,
// inst, req, room, pool, pages, exposed) and the same verdicts.
func CheckAgree(a, b []finding.Finding, va, vb []finding.Verdict) *Objection {
	if o := differ("findings differ", lines(a, findingKey), lines(b, findingKey)); o != nil {
		return o
	}
	o := differ("verdicts differ", lines(va, verdictLine), lines(vb, verdictLine))
	if o == nil {
		return nil
	}
	for _, list := range [][]finding.Verdict{va, vb} {
		for i := range list {
			if line := verdictLine(&list[i]); slices.ContainsFunc(o.Lines, func(d string) bool { return strings.HasSuffix(d, line) }) {
				o.Lines = append(o.Lines, line+": "+list[i].Why)
			}
		}
	}
	return o
}

func lines[T any](list []T, line func(*T) string) []string {
	out := make([]string, len(list))
	for i := range list {
		out[i] = line(&list[i])
	}
	slices.Sort(out)
	return out
}

// differ compares two sorted lists. The class names the first word of the
// first difference, so that one cause is told from another.
func differ(class string, a, b []string) *Objection {
	var diff []string
	for len(a) > 0 || len(b) > 0 {
		switch {
		case len(b) == 0 || len(a) > 0 && a[0] < b[0]:
			diff, a = append(diff, "ledger only: "+a[0]), a[1:]
		case len(a) == 0 || b[0] < a[0]:
			diff, b = append(diff, "oracle only: "+b[0]), b[1:]
		default:
			a, b = a[1:], b[1:]
		}
	}
	if len(diff) == 0 {
		return nil
	}
	words := strings.Fields(diff[0])
	class += ": " + strings.Join(words[:3], " ")
	for _, d := range diff[1:] {
		switch other := strings.Fields(d); {
		case unexposed(d) == unexposed(diff[0]):
			return &Objection{class + " exposes others", diff}
		case slices.Equal(other[2:4], words[2:4]): // the same kind there, or the same verdict on that room
			return &Objection{class + " of another", diff}
		}
	}
	return &Objection{class, diff}
}

// unexposed is what a line says of a finding, but for who is exposed.
func unexposed(line string) string {
	what, rest, _ := strings.Cut(line[len("ledger only: "):], " exposed=[")
	_, rest, _ = strings.Cut(rest, "]")
	return what + rest
}

func findingKey(f *finding.Finding) string {
	var exposed []string
	for _, p := range f.Exposed {
		domain := "?"
		if p.Domain.Has {
			domain = p.Domain.V
		}
		exposed = append(exposed, p.Inst+"/"+p.Req+"/"+domain)
	}
	slices.Sort(exposed)
	return fmt.Sprintf("%s inst=%s req=%s room=%s pool=%s pages=%v exposed=%v synthetic=%v",
		f.Kind, f.Inst, f.Req, f.Room, f.Pool, sortedRuns(f.Pages), exposed, f.Synthetic)
}

func sortedRuns(p finding.Pages) string {
	set := pageSet(lifecycle.Runs(p))
	ids := make([]uint32, 0, len(set))
	for id := range set {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, cmp.Compare[uint32])
	return runs(ids).String()
}

func verdictLine(v *finding.Verdict) string {
	return fmt.Sprintf("%s room=%s req=%s inst=%s", v.Verdict, v.Room, v.Req, v.Inst)
}
