package lint

import (
	"slices"
	"strings"
	"testing"
)

// both are the packages that engines and sidecar share; see DESIGN section 4.
var both = []string{"engine/lifecycle", "engine/lifecycle/stream", "engine/lifecycle/subscribe", "engine/zmtp", "engine/pdwire", "engine/profile"}

// The witness must not depend on what it witnesses.
func TestNothingImportsAgainstTheLayers(t *testing.T) {
	for _, s := range sources(t) {
		if s.test() {
			continue
		}
		for _, folder := range s.imports() {
			if why := against(s.folder(), folder); why != "" {
				t.Errorf("%s imports %s: %s", s.path, folder, why)
			}
		}
	}
}

// against says why a folder may not import another, "" if it may.
func against(from, to string) string {
	switch {
	case slices.Contains(both, from) && !slices.Contains(both, to):
		return "what both sides import imports neither"
	case under(from, "engine") && under(to, "sidecar"):
		return "an engine does not know its witness"
	case under(from, "sidecar") && under(to, "engine") && !slices.Contains(both, to):
		return "the sidecar shares only " + strings.Join(both, ", ") + " with engines"
	case under(from, "sidecar/ledger") && under(to, "sidecar/source"):
		return "the ledger imports no source"
	case under(from, "sidecar/source") && under(to, "sidecar/ledger"):
		return "a source imports no rule"
	case under(from, "sidecar/finding") && under(to, "sidecar"):
		return "what shows findings must not need the rules"
	case !under(from, "test") && under(to, "test"):
		return "only tests import test"
	}
	return ""
}

func under(folder, top string) bool { return folder == top || strings.HasPrefix(folder, top+"/") }

// pure are the packages with rules in them: no clock, no randomness, no I/O,
// no goroutine, so that they can be replayed.
var pure = []string{"sidecar/ledger", "engine/scheduler"}

func TestRulesArePureStateMachines(t *testing.T) {
	impure := []string{"os", "net", "net/http", "io", "bufio", "math/rand", "math/rand/v2", "crypto/rand", "sync", "sync/atomic", "context", "log", "log/slog"}
	for _, s := range sources(t) {
		if s.test() || !slices.Contains(pure, s.folder()) {
			continue
		}
		for _, spec := range s.file.Imports {
			if name := strings.Trim(spec.Path.Value, `"`); slices.Contains(impure, name) {
				t.Errorf("%s imports %s", s.path, name)
			}
		}
		for _, forbidden := range []string{"time.Now(", "time.Since(", "time.Sleep(", "\tgo "} {
			if strings.Contains(stripped(s.text), forbidden) {
				t.Errorf("%s uses %q", s.path, strings.TrimSpace(forbidden))
			}
		}
	}
}

// stripped is text without its comment lines.
func stripped(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(strings.TrimSpace(line), "//") {
			b.WriteString(line)
		}
	}
	return b.String()
}
