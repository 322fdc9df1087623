//go:build amd64

package process

import (
	"os/exec"
	"testing"
	"time"

	"github.com/kvwitness/kvwitness/bpf/load"
)

// Promise: a program that is started is told, by its process, and watched from
// then on.
func TestAProgramThatIsStartedIsTold(t *testing.T) {
	p, err := Open(load.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	cmd := exec.Command("true")
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	told := false
	for end := time.Now().Add(10 * time.Second); !told && time.Now().Before(end); time.Sleep(time.Millisecond) {
		err := p.Drain(func(b []byte) {
			_, pid, ok := Started(b)
			told = told || ok && pid == cmd.Process.Pid
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if !told {
		t.Error("nobody told of it")
	}
	var watched uint64
	if err := p.Targets().Lookup(uint32(cmd.Process.Pid), &watched); err != nil {
		t.Errorf("it was not watched until somebody decided: %v", err)
	}
}
