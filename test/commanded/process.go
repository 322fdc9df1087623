// Package commanded runs a program of a test that does what it is told: it says
// "ready" once it may be told, takes a command a line, and ends its answer to each,
// of one line, with "done". What does not go that way fails the test.
//
// It imports nothing of the project.
package commanded

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// Process is such a program.
type Process struct {
	cmd *exec.Cmd
	in  io.Writer
	out *bufio.Reader
}

// Start runs a program by a command line that ends in running it, with additions to
// this process's environment, and waits until it is ready. It ends with the test.
func Start(t testing.TB, env []string, args ...string) *Process {
	t.Helper()
	p := &Process{cmd: exec.Command(args[0], args[1:]...)}
	p.cmd.Stderr, p.cmd.Env = os.Stderr, append(os.Environ(), env...)
	in, err := p.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	p.in, p.out = in, bufio.NewReader(out)
	if line, err := p.out.ReadString('\n'); err != nil || !strings.HasPrefix(line, "ready") {
		t.Fatalf("%v said %q: %v", args, line, err)
	}
	return p
}

// PID of the process.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Kill kills the process, if it lives, and waits until it is gone.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}

// Tell gives commands, each with its end of line, and waits for no answer.
func (p *Process) Tell(t testing.TB, commands string) {
	t.Helper()
	if _, err := io.WriteString(p.in, commands); err != nil {
		t.Fatal(err)
	}
}

// Do gives a command and returns what the program says before "done".
func (p *Process) Do(t testing.TB, format string, args ...any) string {
	t.Helper()
	p.Tell(t, fmt.Sprintf(format+"\n", args...))
	line, err := p.out.ReadString('\n')
	if err != nil || !strings.HasSuffix(line, "done\n") {
		t.Fatalf("%s: the program said %q: %v", fmt.Sprintf(format, args...), line, err)
	}
	return strings.TrimSpace(strings.TrimSuffix(line, "done\n"))
}
