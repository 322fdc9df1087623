package dashboards

import (
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// root of the repository, from this folder.
const root = "../.."

var ready = sync.OnceValues(func() (string, error) {
	out, err := exec.Command("./ready.sh").Output()
	return strings.TrimSpace(string(out)), err
})

// tool is the path of a program of Debian's prometheus packages.
func tool(t *testing.T, name string) string {
	t.Helper()
	folder, err := ready()
	if err != nil {
		if e, ok := err.(*exec.ExitError); ok {
			t.Fatalf("%v: %s", err, e.Stderr)
		}
		t.Fatal(err)
	}
	return filepath.Join(folder, name)
}

// run runs a program of them to its end and returns what it says.
func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), tool(t, name), args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}
