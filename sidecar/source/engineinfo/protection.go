package engineinfo

import (
	"strings"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
)

// Protections that are known by name; an engine's others are not shown. The last
// three are what operators are told to switch on, whatever the engine calls them.
var Protections = [...]string{
	"pool-gate", "admission-reject", "handoff-compare", "drain-before-release", "page-tags", "handoff-digest",
	"domain-in-key", "drop-late-work", "written-first", "single-release", "layout-check",
	"deferred-release", "checksum", "canary",
}

// NumProtection counts them.
const NumProtection = len(Protections)

// DeferredRelease, Checksum and Canary are the places of those in Protections.
const (
	DeferredRelease = NumProtection - 3 + iota
	Checksum
	Canary
)

// own are kvengine's names of those three.
var own = map[string]int{"drain-before-release": DeferredRelease, "handoff-digest": Checksum, "page-tags": Canary}

// Protection is what an engine says of one.
type Protection struct {
	Said bool // it says anything of it
	On   bool
	Ran  uint64 // how often; 0 too where that is not said
}

// State is what is known of it. One that is on and not shown to have run is unknown.
func (p Protection) State() lifecycle.State {
	switch {
	case !p.Said:
		return lifecycle.StateUnknown
	case !p.On:
		return lifecycle.StateOff
	case p.Ran > 0:
		return lifecycle.StateRan
	}
	return lifecycle.StateUnknown
}

// ofKvengine reads what kvengine says of each of its protections.
func ofKvengine(f fields) (all [NumProtection]Protection) {
	said := f.object("protections")
	for i, name := range Protections {
		state := said.object(name)
		if state == nil {
			continue
		}
		on, _ := state.truth("on")
		ran, _ := state.integer("ran")
		all[i] = Protection{true, on, uint64(max(ran, 0))}
		if at, same := own[name]; same {
			all[at] = all[i]
		}
	}
	return all
}

// settings are words that the key of a setting must have, all of one row, to be the
// switch of a protection: the keys differ between versions of SGLang.
var settings = []struct {
	at    int
	words []string
}{
	{DeferredRelease, []string{"deferred", "release"}},
	{Checksum, []string{"handoff", "checksum"}},
	{Checksum, []string{"disaggregation", "checksum"}},
	{Checksum, []string{"kv", "checksum"}},
	{Canary, []string{"kv", "canary"}},
}

// ofSGLang reads the switches among SGLang's settings. That one is on does not show
// that it runs: its log does.
func ofSGLang(f fields) (all [NumProtection]Protection) {
	for key := range f {
		on, said := f.switched(key)
		if !said {
			continue
		}
		for _, s := range settings {
			if hasAll(key, s.words) {
				all[s.at].On = all[s.at].On || on
				all[s.at].Said = true
			}
		}
	}
	return all
}

// switched reads a setting that is true or false, or a mode, of which none is off.
func (f fields) switched(key string) (on, said bool) {
	if on, said = f.truth(key); said {
		return on, said
	}
	mode := f.word(key)
	return mode != "none", mode != ""
}

func hasAll(text string, words []string) bool {
	for _, w := range words {
		if !strings.Contains(text, w) {
			return false
		}
	}
	return true
}
