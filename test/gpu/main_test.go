//go:build linux

package main

import (
	"os/exec"
	"strings"
	"testing"
)

// The checks hold against a stand-in for the driver, with the commands as they are
// shipped: on a machine with a GPU they then say something of it.
func TestTheChecksHoldAgainstAStandIn(t *testing.T) {
	bin := t.TempDir()
	if out, err := exec.Command("go", "build", "-o", bin, "../../cmd/kvwitness", "../../cmd/kvwitness-nvml").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	failed, err := run(t.Context(), settings{bin: bin, out: t.TempDir(), standIn: true})
	if failed > 0 || err != nil {
		t.Errorf("%d checks failed, %v", failed, err)
	}
}

// The holder builds without CUDA, and says what is missing where there is no driver.
func TestTheHolderSaysWhatIsMissing(t *testing.T) {
	path := t.TempDir() + "/holder"
	if out, err := exec.Command("gcc", "-Wall", "-Werror", "-o", path, "holder/holder.c", "-ldl").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	cmd := exec.Command(path)
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "holder BYTES [GPU]") {
		t.Errorf("%v, %s", err, out)
	}
}
