//go:build linux && amd64

package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/kvwitness/kvwitness/sidecar/probe"
	"github.com/kvwitness/kvwitness/sidecar/source/tcpxfer"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// built is this command, built as it is shipped, where everybody may run it.
var built = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "probe")
	if err == nil {
		err = os.Chmod(dir, 0o755)
	}
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, probe.Command)
	if out, err := exec.Command("go", "build", "-o", path, ".").CombinedOutput(); err != nil {
		return path, fmt.Errorf("%w\n%s", err, out)
	}
	return path, nil
})

func TestMain(m *testing.M) {
	code := m.Run()
	if path, _ := built(); path != "" {
		_ = os.RemoveAll(filepath.Dir(path))
	}
	os.Exit(code)
}

func executable(t *testing.T) string {
	t.Helper()
	path, err := built()
	must(t, err)
	return path
}

func start(t *testing.T, path string, match ...string) *probe.Child {
	t.Helper()
	p, err := probe.Start(context.Background(), probe.StartConfig{Path: path, Match: match, Stderr: os.Stderr})
	must(t, err)
	return p
}

// Promise: the probe links no C, with which rights cannot be dropped on all threads at
// once. A package that imports net is enough to lose that.
func TestTheProbeLinksNoC(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "-f", "{{if .CgoFiles}}{{.ImportPath}}{{end}}", ".").Output()
	must(t, err)
	if linked := strings.Fields(string(out)); len(linked) > 0 {
		t.Errorf("%v would be linked with C", linked)
	}
}

// Promise: once it watches, every thread of the probe has the rights that README.md
// says are kept, and can get no others; and it listens nowhere.
func TestOnlyTheRightsThatAreSaidAreKept(t *testing.T) {
	p := start(t, executable(t), "exe=nothing")
	defer p.Close()
	dir := fmt.Sprintf("/proc/%d", p.PID())
	threads, err := filepath.Glob(dir + "/task/*/status")
	must(t, err)
	if len(threads) < 2 {
		t.Fatalf("%d threads", len(threads))
	}
	want := fmt.Sprintf("%016x", keptRights())
	for _, name := range threads {
		b, err := os.ReadFile(name)
		must(t, err)
		for _, line := range []string{"CapPrm:\t" + want, "CapEff:\t" + want, "CapInh:\t" + strings.Repeat("0", 16), "CapBnd:\t" + strings.Repeat("0", 16), "CapAmb:\t" + strings.Repeat("0", 16), "NoNewPrivs:\t1"} {
			if !strings.Contains(string(b), line+"\n") {
				t.Errorf("%s lacks %q:\n%s", name, line, b)
			}
		}
	}
	fds, err := filepath.Glob(dir + "/fd/*")
	must(t, err)
	sockets := 0
	for _, fd := range fds {
		if to, err := os.Readlink(fd); err == nil && strings.HasPrefix(to, "socket:") {
			sockets++
		}
	}
	if sockets != 1 {
		t.Errorf("%d sockets are open, want the one to the sidecar", sockets)
	}
}

// Promise: README.md says of each right what it is for, and whether it is kept.
func TestEachRightHasItsReason(t *testing.T) {
	b, err := os.ReadFile("README.md")
	must(t, err)
	for _, r := range probe.Rights {
		kept := map[bool]string{true: "yes", false: "no"}[r.Kept]
		if r.Old {
			kept = "before 6.6"
		}
		if row := fmt.Sprintf("| %s | %s | %s |", r.Name, r.Why, kept); !strings.Contains(string(b), row) {
			t.Errorf("README.md lacks %q", row)
		}
	}
	if n := strings.Count(string(b), "| CAP_"); n != len(probe.Rights) {
		t.Errorf("README.md has %d rights, want %d", n, len(probe.Rights))
	}
}

// Promise: without its rights the probe says which it lacks, and how to get them.
func TestMissingRightsAreNamed(t *testing.T) {
	path := executable(t)
	_, err := probe.Start(context.Background(), probe.StartConfig{
		Path: path, Match: []string{"exe=nothing"}, Attr: &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}},
	})
	if err == nil || !strings.Contains(err.Error(), "CAP_BPF, CAP_PERFMON, CAP_SYS_PTRACE") || !strings.Contains(err.Error(), "run it as root") {
		t.Errorf("an unprivileged probe says %v", err)
	}
}

// Promise: the probe ends by itself with its sidecar, and need not be killed.
func TestTheProbeEndsWithItsSidecar(t *testing.T) {
	must(t, start(t, executable(t), "exe=nothing").Close())
}

// Promise: in a container of its own the probe connects to its sidecar, and says
// there what it says to one that started it.
func TestTheProbeConnectsToItsSidecar(t *testing.T) {
	name := filepath.Join(t.TempDir(), "probe.sock")
	l, err := net.Listen("unix", name)
	must(t, err)
	defer l.Close()
	cmd := exec.Command(executable(t), "--connect", name, "--match", "exe=nothing")
	cmd.Stderr = os.Stderr
	must(t, cmd.Start())
	conn, err := l.Accept()
	must(t, err)
	r, err := probe.NewReader(conn)
	must(t, err)
	for k := probe.Hello; k != probe.Progress; {
		k, _, err = r.Next()
		must(t, err)
	}
	must(t, conn.Close())
	must(t, cmd.Wait())
}

// Promise: a rule that cannot be understood, or none, is refused in words.
func TestBadRulesAreRefused(t *testing.T) {
	path := executable(t)
	for _, match := range [][]string{nil, {"pid=0"}, {"exe=["}, {"name=x"}, {"container=abc"}} {
		if _, err := probe.Start(context.Background(), probe.StartConfig{Path: path, Match: match}); err == nil {
			t.Errorf("rules %q are taken", match)
		}
	}
}

// Promise: a process that matches is told, also one that is started later, and so
// is its end; one that does not match is not.
func TestProcessesAreToldAsTheyComeAndGo(t *testing.T) {
	early := sleeper(t, "4711.25")
	p := start(t, executable(t), "command=sleep 4711.25", "command=sleep 4711.5")
	defer p.Close()
	seen := make(chan probe.Seen, 16)
	go func() {
		for {
			k, b, err := p.Next()
			if err != nil {
				return
			}
			if s, err := probe.ParseSeen(b); k == probe.Process && err == nil {
				seen <- s
			}
		}
	}()
	expect := func(pid int, ended bool) {
		t.Helper()
		select {
		case s := <-seen:
			if int(s.PID) != pid || s.Ended != ended {
				t.Fatalf("told %+v, want %d, ended %v", s, pid, ended)
			}
		case <-time.After(60 * time.Second):
			t.Fatalf("nobody told of %d", pid)
		}
	}
	expect(early.Process.Pid, false)
	sleeper(t, "4712")
	late := sleeper(t, "4711.5")
	expect(late.Process.Pid, false)
	must(t, late.Process.Kill())
	_ = late.Wait()
	expect(late.Process.Pid, true)
}

func sleeper(t *testing.T, seconds string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("sleep", seconds)
	must(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return cmd
}

// Promise: a connection that the process itself closed, so that nobody reads its
// end, is forgotten, and that is told.
func TestConnectionsThatAreClosedAreForgotten(t *testing.T) {
	p := start(t, executable(t), fmt.Sprintf("pid=%d", os.Getpid()))
	defer p.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	client, err := net.Dial("tcp", l.Addr().String())
	must(t, err)
	defer client.Close()
	server, err := l.Accept()
	must(t, err)
	_, err = client.Write([]byte("\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x10\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00x"))
	must(t, err)
	_, err = io.ReadFull(server, make([]byte, 25))
	must(t, err)
	must(t, server.Close())
	var inode uint64
	for {
		k, b, err := p.Next()
		must(t, err)
		if k == probe.Transfer {
			r, err := tcpxfer.Parse(b)
			must(t, err)
			if r.Kind == tcpxfer.Moved {
				inode = r.Inode
			}
		}
		if k == probe.Gone && inode != 0 && binary.LittleEndian.Uint64(b) == inode {
			return
		}
	}
}
