package sim

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
)

// shrinkLimit bounds how often a trace is judged while it is made smaller.
const shrinkLimit = 1500

// Shrink makes a trace as small as it can while bad still says so: first it
// drops whole requests, then facts, in ever smaller groups. Where what is left
// must still be valid traffic but for what is wanted of it, keep is that, and
// it drops other whole requests and what goes on beside them only. Streams are
// numbered anew.
func (t *Trace) Shrink(keep *Want, bad func([]*lifecycle.Fact) bool) []*lifecycle.Fact {
	tries := 0
	still := func(list []*lifecycle.Fact) bool {
		tries++
		list = t.renumber(list)
		return tries < shrinkLimit && len(list) > 0 && bad(list)
	}
	facts := t.dropRequests(keep, still)
	if keep != nil {
		facts = dropBesides(facts, still)
		return t.renumber(facts)
	}
	for size := len(facts) / 2; size > 0; {
		smaller := dropGroups(facts, size, still)
		if len(smaller) == len(facts) {
			size /= 2
		}
		facts = smaller
		size = min(size, len(facts))
	}
	return t.renumber(facts)
}

// dropRequests drops all that is of a request.
func (t *Trace) dropRequests(keep *Want, still func([]*lifecycle.Fact) bool) []*lifecycle.Fact {
	facts := t.Facts
	seen := map[string]bool{"": true}
	if keep != nil {
		seen[strings.TrimPrefix(keep.Room, "r")] = true
		seen[strings.TrimSuffix(strings.TrimSuffix(keep.Req, ".p"), ".d")] = true
	}
	if t.Struck != nil {
		for _, id := range t.Struck.of {
			seen[id] = true
		}
	}
	for _, f := range t.Facts {
		owner := t.owners[f]
		if seen[owner] {
			continue
		}
		seen[owner] = true
		rest := slices.DeleteFunc(slices.Clone(facts), func(f *lifecycle.Fact) bool { return t.owners[f] == owner })
		if still(rest) {
			facts = rest
		}
	}
	return facts
}

// stream is what a sequence number counts in.
type stream struct {
	inst  string
	src   lifecycle.Src
	epoch uint64
}

func streamOf(f *lifecycle.Fact) stream { return stream{f.Inst, f.Src, f.Epoch.V} }

// numbers lists the sequence numbers of each stream.
func numbers(facts []*lifecycle.Fact) map[stream][]uint64 {
	all := map[stream][]uint64{}
	for _, f := range facts {
		if f.Seq.Has {
			all[streamOf(f)] = append(all[streamOf(f)], f.Seq.V)
		}
	}
	for s, list := range all {
		slices.Sort(list)
		all[s] = slices.Compact(list)
	}
	return all
}

// renumber closes the gaps that dropping facts of the trace leaves in numbered
// streams, but not those that it had.
func (t *Trace) renumber(facts []*lifecycle.Fact) []*lifecycle.Fact {
	before, now := numbers(t.Facts), numbers(facts)
	out := make([]*lifecycle.Fact, len(facts))
	for i, f := range facts {
		if f.Seq.Has {
			again := *f
			had, _ := slices.BinarySearch(before[streamOf(f)], f.Seq.V)
			has, _ := slices.BinarySearch(now[streamOf(f)], f.Seq.V)
			again.Seq.V -= uint64(had - has)
			f = &again
		}
		out[i] = f
	}
	return out
}

// besides are facts without which valid traffic stays valid.
var besides = []lifecycle.Ev{lifecycle.PoolAudit, lifecycle.RegionRegistered, lifecycle.VRAMUsage, lifecycle.Watermark}

func dropBesides(facts []*lifecycle.Fact, still func([]*lifecycle.Fact) bool) []*lifecycle.Fact {
	for _, ev := range besides {
		rest := slices.DeleteFunc(slices.Clone(facts), func(f *lifecycle.Fact) bool { return f.Ev == ev })
		if len(rest) < len(facts) && still(rest) {
			facts = rest
		}
	}
	return facts
}

func dropGroups(facts []*lifecycle.Fact, size int, still func([]*lifecycle.Fact) bool) []*lifecycle.Fact {
	for at := 0; at < len(facts); {
		end := min(at+size, len(facts))
		rest := append(append(make([]*lifecycle.Fact, 0, len(facts)), facts[:at]...), facts[end:]...)
		if still(rest) {
			facts = rest
		} else {
			at = end
		}
	}
	return facts
}

// WriteTrace writes facts to a file of their own in dir, with the seed in its
// name, and what was objected beside it. It returns the file's name.
func WriteTrace(dir, name string, seed uint64, facts []*lifecycle.Fact, o *Objection) (string, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("making the folder for shrunk traces: %w", err)
	}
	clean := strings.Map(func(r rune) rune {
		if r == ' ' || r == '/' || r == ':' || r == '=' {
			return '-'
		}
		return r
	}, name)
	file := filepath.Join(dir, fmt.Sprintf("%s-%d.jsonl", clean, seed))
	out, err := os.Create(file)
	if err != nil {
		return "", fmt.Errorf("writing a shrunk trace: %w", err)
	}
	defer out.Close()
	w, err := lifecycle.NewWriter(out, lifecycle.Header{})
	if err != nil {
		return "", err
	}
	for _, f := range facts {
		if err := w.Write(f); err != nil {
			return "", fmt.Errorf("writing a shrunk trace: %w", err)
		}
	}
	if err := w.Flush(); err != nil {
		return "", fmt.Errorf("writing a shrunk trace: %w", err)
	}
	return file, os.WriteFile(file+".why", []byte(o.Error()+"\n"), 0o644)
}
