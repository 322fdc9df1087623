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
const shrinkLimit = 4000

// Shrink makes a trace as small as it can while bad still says so: first it
// drops whole requests, then facts, in ever smaller groups. Where what is left
// must still be valid traffic, it drops whole requests and what goes on
// beside them only.
func Shrink(facts []*lifecycle.Fact, valid bool, bad func([]*lifecycle.Fact) bool) []*lifecycle.Fact {
	tries := 0
	still := func(list []*lifecycle.Fact) bool {
		tries++
		return tries < shrinkLimit && len(list) > 0 && bad(list)
	}
	facts = dropRequests(facts, still)
	if valid {
		return dropBesides(facts, still)
	}
	for size := len(facts) / 2; size > 0; {
		smaller := dropGroups(facts, size, still)
		if len(smaller) == len(facts) {
			size /= 2
		}
		facts = smaller
		size = min(size, len(facts))
	}
	return facts
}

// dropRequests drops all that names a request or its room.
func dropRequests(facts []*lifecycle.Fact, still func([]*lifecycle.Fact) bool) []*lifecycle.Fact {
	names := []string{}
	seen := map[string]bool{"": true}
	for _, f := range facts {
		for _, name := range []string{f.Room, f.Req} {
			if !seen[name] {
				seen[name] = true
				names = append(names, name)
			}
		}
	}
	for _, name := range names {
		rest := make([]*lifecycle.Fact, 0, len(facts))
		for _, f := range facts {
			if f.Req != name && f.Room != name {
				rest = append(rest, f)
			}
		}
		if len(rest) < len(facts) && still(rest) {
			facts = rest
		}
	}
	return facts
}

// beside are facts without which valid traffic stays valid.
var besides = []lifecycle.Ev{lifecycle.PoolAudit, lifecycle.RegionRegistered, lifecycle.VRAMUsage, lifecycle.Watermark,
	lifecycle.ContentDigest, lifecycle.PagesRead}

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
