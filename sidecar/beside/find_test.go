package beside

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Promise: what lies beside the command comes before what is looked up, and what is
// nowhere is an error that says what to do.
func TestACommandIsFoundBesideThisOneFirst(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	elsewhere := t.TempDir()
	t.Setenv("PATH", elsewhere)
	const name = "kvwitness-found-by-a-test"
	if _, err := Find(name); err == nil || !strings.Contains(err.Error(), "install it beside") {
		t.Errorf("%v", err)
	}
	for _, want := range []string{filepath.Join(elsewhere, name), filepath.Join(filepath.Dir(self), name)} {
		if err := os.WriteFile(want, nil, 0o755); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.Remove(want) })
		if got, err := Find(name); err != nil || got != want {
			t.Errorf("%s, %v, want %s", got, err, want)
		}
	}
}
