package dashboards

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/kvwitness/kvwitness/test/monitoring"
)

// root of the repository, from this folder.
const root = "../.."

// tool is the path of a program of Debian's prometheus packages.
func tool(t *testing.T, name string) string {
	t.Helper()
	path, err := monitoring.Tool(root, name)
	if err != nil {
		t.Fatal(err)
	}
	return path
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
