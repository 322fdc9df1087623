package dashboards

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/kvwitness/kvwitness/dashboards/alert"
)

const runbooks = root + "/dashboards/runbooks/"

func runbook(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(runbooks + name + ".md")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestEveryAlertHasItsRunbookAndEveryRunbookItsAlert(t *testing.T) {
	left := map[string]bool{}
	paths, err := filepath.Glob(runbooks + "*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		left[strings.TrimSuffix(filepath.Base(path), ".md")] = true
	}
	delete(left, "README")
	index := runbook(t, "README")
	for _, r := range alert.Rules() {
		if !left[r.Name] || !strings.Contains(index, "["+r.Name+"]("+r.Name+".md)") {
			t.Errorf("%s has no runbook, or the index does not name it", r.Name)
		}
		delete(left, r.Name)
	}
	for name := range left {
		t.Errorf("the runbook %s is of no alert", name)
	}
}

func TestARunbookAnswersEveryQuestion(t *testing.T) {
	for _, r := range alert.Rules() {
		text := runbook(t, r.Name)
		for _, head := range []string{"What it means", "Claimed and seen", "Confirm in five minutes", "Contain", "Whose data", "Is it a drill?", "Whom to wake"} {
			_, after, found := strings.Cut(text, "\n## "+head+"\n\n")
			body, _, _ := strings.Cut(after, "\n## ")
			if !found || len(strings.TrimSpace(body)) < 7 {
				t.Errorf("%s: nothing under %q", r.Name, head)
			}
		}
		if strings.Contains(text, "%!") || strings.Contains(text, "Claimed: \n") || strings.Contains(text, "Seen: \n") {
			t.Errorf("%s has a hole:\n%s", r.Name, text)
		}
	}
}

// built is where the commands lie once a test has asked for them.
var built string

// bins are kvwitness and kvengine, built from this tree.
var bins = sync.OnceValues(func() (dir string, err error) {
	if dir, err = os.MkdirTemp("", "kvd-bin"); err != nil {
		return "", err
	}
	cmd := exec.Command("go", "build", "-o", dir, "./cmd/kvwitness", "./cmd/kvengine")
	cmd.Dir = root
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", &buildError{out}
	}
	built = dir
	return dir, nil
})

type buildError struct{ out []byte }

func (e *buildError) Error() string { return "build the commands: " + string(e.out) }

func TestMain(m *testing.M) {
	status := m.Run()
	if built != "" {
		_ = os.RemoveAll(built)
	}
	os.Exit(status)
}

func bin(t *testing.T, name string) string {
	t.Helper()
	dir, err := bins()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, name)
}

// A command that is not there is found out at three in the morning.
func TestRunbooksNameOnlyCommandsAndFlagsThatAreThere(t *testing.T) {
	command := regexp.MustCompile("(?m)(?:^|`)(kvwitness|kvengine) ((?:findings )?[a-z]+)([^`|\n]*)")
	flag := regexp.MustCompile(`--[a-z-]+`)
	help := map[string]string{}
	for _, r := range alert.Rules() {
		for _, m := range command.FindAllStringSubmatch(runbook(t, r.Name), -1) {
			of := m[1] + " " + m[2]
			if help[of] == "" {
				out, err := exec.CommandContext(t.Context(), bin(t, m[1]), append(strings.Fields(m[2]), "--help")...).CombinedOutput()
				if err != nil || !strings.Contains(string(out), of) {
					t.Errorf("%s: there is no %s: %v", r.Name, of, err)
				}
				help[of] = string(out)
			}
			for _, f := range flag.FindAllString(m[3], -1) {
				if !strings.Contains(help[of], f+" ") {
					t.Errorf("%s: %s has no %s", r.Name, of, f)
				}
			}
		}
	}
	if len(help) < 4 {
		t.Errorf("found only %d commands in the runbooks", len(help))
	}
}
