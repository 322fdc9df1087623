package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// binary is the command as it is shipped, built once.
var binary string

func TestMain(m *testing.M) {
	os.Exit(withBinary(m))
}

func withBinary(m *testing.M) int {
	dir, err := os.MkdirTemp("", "kvwitness")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	binary = filepath.Join(dir, "kvwitness")
	if out, err := exec.Command("go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
		panic(string(out))
	}
	return m.Run()
}

// result is how a run of the command ended.
type result struct {
	out, notes string
	status     int
	peak       int64 // bytes of memory
}

// start runs the command with a clean environment but for env.
func start(t *testing.T, env []string, in io.Reader, args ...string) result {
	t.Helper()
	var out, notes bytes.Buffer
	cmd := exec.Command(binary, args...)
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH")}, env...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = in, &out, &notes
	err := cmd.Run()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) && !errors.Is(err, syscall.EPIPE) {
		t.Fatal(err)
	}
	usage := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	if strings.Contains(notes.String(), "panic:") || strings.Contains(notes.String(), "goroutine ") {
		t.Fatalf("kvwitness %v panicked:\n%s", args, notes.String())
	}
	return result{out.String(), notes.String(), cmd.ProcessState.ExitCode(), usage.Maxrss << 10}
}

func kvwitness(t *testing.T, args ...string) result {
	t.Helper()
	return start(t, nil, strings.NewReader(""), args...)
}

func file(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func (r result) expect(t *testing.T, status int, says ...string) {
	t.Helper()
	if r.status != status {
		t.Errorf("status %d, want %d\n%s%s", r.status, status, r.out, r.notes)
	}
	for _, text := range says {
		if !strings.Contains(r.out+r.notes, text) {
			t.Errorf("it does not say %q:\n%s%s", text, r.out, r.notes)
		}
	}
}

func TestVersionSaysVersionCommitAndGo(t *testing.T) {
	kvwitness(t, "--version").expect(t, statusFine, "kvwitness ", "commit ", "go1.")
}

func TestWrongUseIsAnErrorInWords(t *testing.T) {
	kvwitness(t, "repaly").expect(t, statusError, `unknown command "repaly"`)
	kvwitness(t, "replay").expect(t, statusError, "requires at least 1 arg")
	kvwitness(t, "replay", "--jsno", "x").expect(t, statusError, "unknown flag: --jsno")
}

func TestExplainListsAndExplainsEveryKind(t *testing.T) {
	list := kvwitness(t, "explain")
	list.expect(t, statusFine)
	lines := strings.Split(strings.TrimSpace(list.out), "\n")
	if len(lines) != 18 {
		t.Fatalf("%d kinds listed", len(lines))
	}
	for _, line := range lines {
		kind := strings.Fields(line)[1]
		kvwitness(t, "explain", kind).expect(t, statusFine, kind+"  ", "What it means", "Why it matters", "What usually causes it", "What to do")
	}
	kvwitness(t, "explain", "stale").expect(t, statusError, `"stale" is no kind`, "stale_read, foreign_page")
	if n := strings.Count(kvwitness(t, "explain", "--json").out, "\n"); n != 18 {
		t.Errorf("%d JSON lines", n)
	}
	kvwitness(t, "explain", "--json", "blind").expect(t, statusFine, `{"kind":"blind","severity":"warning",`)
}

func TestSettingsAreShownAndStrict(t *testing.T) {
	bad := file(t, "k.yaml", "setle: 1s\n")
	good := file(t, "k.toml", "settle = \"30ms\"\n")
	start(t, []string{"KVWITNESS_CONFIG=" + good, "KVWITNESS_STALL=1m"}, nil, "config", "--grace", "2s").
		expect(t, statusFine, "30ms", "file "+good, "environment KVWITNESS_STALL", "flag --grace")
	kvwitness(t, "config", "--json").expect(t, statusFine, `{"key":"settle","value":"20ms","from":"default"`)
	for _, command := range [][]string{{"config"}, {"replay", "x"}} {
		kvwitness(t, append(command, "--config", bad)...).expect(t, statusError, `"setle"`, bad, "allowed are settle")
		start(t, []string{"KVWITNESS_HUE=1"}, nil, command...).expect(t, statusError, "KVWITNESS_HUE", "KVWITNESS_SETTLE")
		kvwitness(t, append(command, "--settle", "soon")...).expect(t, statusError, "flag --settle", "a duration such as")
	}
}
