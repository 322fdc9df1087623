package main

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Promise: check starts the real probe beside the command and ends with 0 where all
// is met, with 3 where something is not; as JSON each need is one object.
func TestCheckEndsWithHowTheMachineStands(t *testing.T) {
	dir := t.TempDir()
	out, err := exec.Command("go", "build", "-o", dir, ".", "../kvwitness-probe").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for args, want := range map[string]struct {
		status int
		need   string
		state  string
	}{
		"check --json": {0, "programs load", "met"},
		"check --json --watch exe=nobody-has-this": {3, "processes exe=nobody-has-this", "not met"},
	} {
		cmd := exec.Command(filepath.Join(dir, "kvwitness"), strings.Fields(args)...)
		out, err := cmd.Output()
		if cmd.ProcessState == nil {
			t.Fatal(err)
		}
		states := map[string]string{}
		for line := range strings.Lines(string(out)) {
			var n struct{ Need, State string }
			if err := json.Unmarshal([]byte(line), &n); err != nil {
				t.Fatalf("%q: %v", line, err)
			}
			states[n.Need] = n.State
		}
		if got := cmd.ProcessState.ExitCode(); got != want.status || states[want.need] != want.state {
			t.Errorf("%s ends with %d, want %d; %v", args, got, want.status, states)
		}
	}
}
