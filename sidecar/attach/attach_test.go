package attach

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

const id = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

// Promise: each kind of rule names the processes that it says, and no others.
func TestRulesNameTheProcessesThatTheySay(t *testing.T) {
	p := &Process{
		PID: 4711, Exe: "/usr/bin/python3.11", Command: "python3 -m sglang.launch_server --role prefill",
		CGroup: "/kubepods.slice/kubepods-pod1.slice/cri-containerd-" + id + ".scope",
	}
	for text, want := range map[string]bool{
		"pid=4711": true, "pid=47": false,
		"exe=python3*": true, "exe=/usr/bin/python3.11": true, "exe=/usr/*/python3.1?": true, "exe=python": false, "exe=/bin/*": false,
		"command=--role prefill": true, "command=--role decode": false,
		"cgroup=kubepods-pod1": true, "cgroup=docker": false,
		"container=" + id: true, "container=" + id[:12]: true, "container=" + id[1:13]: false, "container=89abcdef0": false,
	} {
		r, err := ParseRule(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := r.Matches(p); got != want {
			t.Errorf("%s matches: %v", text, got)
		}
	}
	if r, _ := ParseRule("exe=*"); r.Matches(&Process{}) {
		t.Error("a process whose executable cannot be read matches every pattern")
	}
}

func TestWhatIsNoRuleIsRefused(t *testing.T) {
	for _, text := range []string{"", "pid", "pid=", "pid=x", "pid=-1", "exe=[", "user=root", "container=0123", "container=xyzxyzxyz", "command=" + strings.Repeat("x", MaxPattern+1)} {
		if _, err := ParseRule(text); !errors.Is(err, ErrRule) {
			t.Errorf("%q is taken: %v", text, err)
		}
	}
}

// Promise: a process is read as it is.
func TestAProcessIsReadAsItIs(t *testing.T) {
	p, err := Proc("/proc").Look(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if p.Exe != exe || !strings.HasPrefix(p.Command, os.Args[0]) || p.Start == 0 || p.CGroup == "" {
		t.Errorf("this process is %+v", p)
	}
	if _, err := Proc("/proc").Look(1 << 30); err == nil {
		t.Error("a process that is not there is read")
	}
}

// table is a /proc of the test's own.
type table struct {
	t   *testing.T
	dir string
}

func (tb table) put(pid int, start int, command string) {
	tb.t.Helper()
	dir := filepath.Join(tb.dir, strconv.Itoa(pid))
	stat := fmt.Sprintf("%d (a ) name) S %s%d 0 0\n", pid, strings.Repeat("0 ", 18), start)
	for name, text := range map[string]string{"stat": stat, "cmdline": strings.ReplaceAll(command, " ", "\x00") + "\x00", "cgroup": "0::/x\n"} {
		if err := errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644)); err != nil {
			tb.t.Fatal(err)
		}
	}
}

func (tb table) drop(pid int) {
	tb.t.Helper()
	if err := os.RemoveAll(filepath.Join(tb.dir, strconv.Itoa(pid))); err != nil {
		tb.t.Fatal(err)
	}
}

// Promise: each process is told once when it is found and once when it is gone;
// a number that was given again is another process, as is one that runs another
// program now; those beyond the limit, and those that are refused, are counted.
func TestProcessesAreToldOnce(t *testing.T) {
	tb := table{t, t.TempDir()}
	rule, err := ParseRule("command=engine")
	if err != nil {
		t.Fatal(err)
	}
	var told []string
	w := Watch{
		Proc: Proc(tb.dir), Rules: []Rule{rule}, MaxProcesses: 2, Self: 9,
		Started: func(p Process) error {
			if strings.Contains(p.Command, "refuse") {
				return errors.New("no")
			}
			told = append(told, fmt.Sprintf("+%d@%d", p.PID, p.Start))
			return nil
		},
		Ended: func(p Process) { told = append(told, fmt.Sprintf("-%d@%d", p.PID, p.Start)) },
	}
	step := func(what, want string, do func()) {
		t.Helper()
		told = nil
		do()
		if got := strings.Join(told, " "); got != want {
			t.Errorf("%s: told %q, want %q", what, got, want)
		}
	}
	scan := func() { _ = w.Scan() }
	tb.put(1, 10, "an engine")
	tb.put(2, 11, "other")
	tb.put(9, 12, "the probe of an engine")
	step("the first look", "+1@10", scan)
	step("nothing new", "", scan)
	tb.put(2, 11, "now an engine")
	step("a program was changed, and nobody said so", "", scan)
	step("somebody says so", "+2@11", func() { _ = w.Find(2) })
	tb.put(3, 13, "engine three")
	step("one too many", "", scan)
	tb.drop(3)
	tb.drop(1)
	tb.put(1, 20, "an engine again")
	step("a number is given again", "-1@10 +1@20", scan)
	tb.put(2, 11, "no more")
	step("a watched process runs another program", "-2@11", func() { _ = w.Find(2) })
	tb.put(4, 14, "engine refuse")
	step("one is refused", "", func() {
		if w.Scan() == nil {
			t.Error("that it is refused is not said")
		}
	})
	if w.Refused() == 0 || len(w.Watched()) != 1 {
		t.Errorf("refused %d, watched %v", w.Refused(), w.Watched())
	}
}

// Promise: 200 processes are found at once, and so is their end.
func TestTwoHundredProcessesAtOnce(t *testing.T) {
	const n = 200
	rule, err := ParseRule("command=sleep 31415.9")
	if err != nil {
		t.Fatal(err)
	}
	started, ended := 0, 0
	w := Watch{Proc: "/proc", Rules: []Rule{rule}, Started: func(Process) error { started++; return nil }, Ended: func(Process) { ended++ }}
	var all []*exec.Cmd
	for range n {
		cmd := exec.Command("sleep", "31415.9")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		all = append(all, cmd)
	}
	err = w.Scan()
	for _, cmd := range all {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
	if err := errors.Join(err, w.Scan()); err != nil || started != n || ended != n {
		t.Errorf("%d started, %d ended of %d: %v", started, ended, n, err)
	}
}
