package check

import (
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kvwitness/kvwitness/sidecar/attach"
	"github.com/kvwitness/kvwitness/sidecar/config"
	"github.com/kvwitness/kvwitness/sidecar/probe"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// allRights is a mask of all capabilities.
const allRights = ^uint64(0)

// machine is one of the test's own, on which all needs are met, with some changes.
func machine(t *testing.T, change func(m *Machine, write func(name, text string))) Machine {
	t.Helper()
	m := Machine{Root: t.TempDir(), Release: "6.1.0-32-amd64", Arch: "amd64", Permitted: allRights}
	write := func(name, text string) {
		t.Helper()
		at := m.file(name)
		if text == "" {
			must(t, os.RemoveAll(at))
			return
		}
		must(t, os.MkdirAll(filepath.Dir(at), 0o755))
		must(t, os.WriteFile(at, []byte(text), 0o644))
	}
	write("sys/kernel/btf/vmlinux", "x")
	write("sys/kernel/security/lockdown", "[none] integrity confidentiality\n")
	write("sys/bus/event_source/devices/uprobe/type", "8\n")
	write("proc/sys/kernel/perf_event_paranoid", "3\n")
	must(t, os.MkdirAll(m.file("proc/self/ns"), 0o755))
	must(t, os.Symlink(firstNamespace, m.file("proc/self/ns/pid")))
	if change != nil {
		change(&m, write)
	}
	return m
}

// Promise: each need of the machine is met or not by what is there, and says a
// remedy unless it is met.
func TestEachNeedIsMetOrNot(t *testing.T) {
	for name, c := range map[string]struct {
		change func(m *Machine, write func(name, text string))
		need   string // that is not as the others
		state  State
		found  string
	}{
		"all are met": {},
		"an old kernel": {
			func(m *Machine, _ func(string, string)) { m.Release = "5.10.0-8-amd64"; m.Memlock = 1 << 40 }, "kernel", Unmet, "5.10",
		},
		"another processor":   {func(m *Machine, _ func(string, string)) { m.Arch = "arm64" }, "kernel", Unmet, "arm64"},
		"a strange release":   {func(m *Machine, _ func(string, string)) { m.Release = "x"; m.Memlock = 1 << 40 }, "kernel", Unmet, "x"},
		"no type information": {func(_ *Machine, write func(string, string)) { write("sys/kernel/btf/vmlinux", "") }, "type information (BTF)", Unmet, "no such file"},
		"locked down": {func(_ *Machine, write func(string, string)) {
			write("sys/kernel/security/lockdown", "none integrity [confidentiality]")
		}, "lockdown", Unmet, "[confidentiality]"},
		"locked for integrity": {func(_ *Machine, write func(string, string)) {
			write("sys/kernel/security/lockdown", "none [integrity] confidentiality")
		}, "", Met, ""},
		"no uprobes": {func(_ *Machine, write func(string, string)) { write("sys/bus/event_source/devices/uprobe/type", "") }, "uprobes", Unmet, "no /sys/bus"},
		"newer, without perf": {
			func(m *Machine, write func(string, string)) {
				m.Release = "6.18.1"
				write("sys/bus/event_source/devices/uprobe/type", "")
			}, "", Met, "",
		},
		"no CAP_BPF":            {func(m *Machine, _ func(string, string)) { m.Permitted &^= 1 << 39 }, "rights", Unmet, "CAP_BPF"},
		"no CAP_SYS_ADMIN, old": {func(m *Machine, _ func(string, string)) { m.Permitted &^= 1 << 21 }, "rights", Unmet, "CAP_SYS_ADMIN"},
		"no CAP_SYS_ADMIN, new": {func(m *Machine, _ func(string, string)) { m.Permitted &^= 1 << 21; m.Release = "6.6.0" }, "", Met, ""},
		"paranoid is not known": {func(_ *Machine, write func(string, string)) { write("proc/sys/kernel/perf_event_paranoid", "") }, "perf_event_paranoid", Unknown, "no such file"},
		"another PID namespace": {
			func(m *Machine, write func(string, string)) {
				write("proc/self/ns/pid", "")
				_ = os.Symlink("pid:[4026532000]", m.file("proc/self/ns/pid"))
			}, "PID namespace", Unmet, "4026532000",
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := machine(t, c.change)
			for _, n := range m.Kernel() {
				if n.State != Met && n.Remedy == "" || n.State == Met && n.Remedy != "" || n.Found == "" {
					t.Errorf("%+v", n)
				}
				if n.Name == c.need {
					if n.State != c.state || !strings.Contains(n.Found, c.found) {
						t.Errorf("%+v, want %s", n, c.state)
					}
				} else if n.State != Met {
					t.Errorf("%+v", n)
				}
			}
		})
	}
}

// Promise: without CAP_PERFMON perf_event_paranoid is in the way, and on a kernel
// before 5.11 little locked memory is.
func TestRightsAndLimitsOfOldKernels(t *testing.T) {
	m := machine(t, func(m *Machine, _ func(string, string)) { m.Permitted, m.Release, m.Memlock = 0, "5.10.1", 64<<10 })
	for _, n := range m.Kernel() {
		want := map[string]State{"kernel": Unmet, "rights": Unmet, "perf_event_paranoid": Unmet, "locked memory": Unmet}[n.Name]
		if n.State != want {
			t.Errorf("%+v, want %s", n, want)
		}
	}
}

// Promise: a GPU is named where its driver is, and its absence is one line.
func TestAGPUIsOneLine(t *testing.T) {
	m := machine(t, func(_ *Machine, write func(string, string)) {
		write("proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.1\nGCC version: x\n")
	})
	if n := m.gpu(); n.State != Met || n.Found != "NVIDIA UNIX x86_64 Kernel Module  550.1" {
		t.Errorf("%+v", n)
	}
}

// sleeper is a process with libraries loaded into it.
func sleeper(t *testing.T, seconds string, preload ...string) int {
	t.Helper()
	cmd := exec.Command("sleep", seconds)
	cmd.Env = append(os.Environ(), "LD_PRELOAD="+strings.Join(preload, ":"))
	must(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return cmd.Process.Pid
}

// Promise: of each process that matches it is said what it has of RDMA, and a rule
// that nobody matches is not met.
func TestProcessesSayWhatTheyHaveOfRDMA(t *testing.T) {
	const lib = "/usr/lib/x86_64-linux-gnu/"
	fake := filepath.Join(t.TempDir(), "libucp.so.0")
	out, err := exec.Command("gcc", "-shared", "-o", fake, "-x", "c", "/dev/null").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	rules := make([]attach.Rule, 0, 4)
	for seconds, preload := range map[string][]string{
		"8101.25": nil, "8101.5": {lib + "libibverbs.so.1", lib + "libibverbs/librxe-rdmav34.so"}, "8101.75": {fake}, "8102.5": nil,
	} {
		r, err := attach.ParseRule("command=sleep " + seconds)
		must(t, err)
		rules = append(rules, r)
		if seconds != "8102.5" {
			sleeper(t, seconds, preload...)
		}
	}
	m, err := ThisMachine()
	must(t, err)
	wanted := map[string]State{"sleep; no libibverbs": Met, "libibverbs.so.1.14.44.0 with librxe-rdmav34.so": Met, "UCX (libucp.so.0)": Met, "none matches": Unmet}
	for end := time.Now().Add(60 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		needs := m.Processes(rules)
		found := 0
		for text, state := range wanted {
			for _, n := range needs {
				if strings.Contains(n.Found, text) && n.State == state {
					found++
				}
			}
		}
		if found == len(wanted) && len(needs) == 7 {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%+v", needs)
		}
	}
}

// Promise: an engine that answers is met, one that does not is not, and its stream
// is as its socket is.
func TestEnginesAreAskedAndTheirStreamsLookedAt(t *testing.T) {
	engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/models" {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write([]byte(`{"data":[{"id":"m","max_model_len":4096}]}`))
	}))
	defer engine.Close()
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "there.events"), nil, 0o600))
	s := config.Sidecar{EventsDir: dir, Engines: []config.Engine{
		{Name: "answers", URL: engine.URL},
		{Name: "silent", URL: "http://127.0.0.1:1"},
		{Name: "there", Instance: "there"},
		{Name: "gone", Instance: "gone"},
		{Name: "far", Events: "tcp://10.0.0.1:1", Instance: "far"},
	}}
	want := map[string]State{
		"engine answers": Met, "events of answers": Met, "engine silent": Unmet, "events of silent": Unknown,
		"events of there": Met, "events of gone": Unmet, "events of far": Unknown,
	}
	needs := Engines(t.Context(), &s)
	if len(needs) != len(want) {
		t.Errorf("%d needs, want %d", len(needs), len(want))
	}
	for _, n := range needs {
		if state, ok := want[n.Name]; !ok || n.State != state || n.State != Met && n.Remedy == "" {
			t.Errorf("%+v, want %s", n, state)
		}
	}
}

// Promise: a probe that is not there is said with where it belongs; every right
// that it uses has a reason.
func TestAMissingProbeIsSaid(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	m := machine(t, nil)
	if n := m.Probe(t.Context(), "x"); len(n) != 1 || n[0].State != Unmet || !strings.Contains(n[0].Remedy, probe.Command) {
		t.Errorf("%+v", n)
	}
}

// Promise: what is written for people has each need with its state and remedy, and
// the worst state decides.
func TestNeedsAreWritten(t *testing.T) {
	needs := []Need{met("a", "all is well"), unmet("b", "mend it", "all is ill"), unknown("c", "look there", "nobody knows")}
	var text, lines strings.Builder
	must(t, Write(&text, needs))
	must(t, WriteJSON(&lines, needs))
	for _, part := range []string{"met          a ", "not met      b ", "remedy: mend it", "not checked  c "} {
		if !strings.Contains(text.String(), part) {
			t.Errorf("%q is not in\n%s", part, &text)
		}
	}
	if want := `{"need":"b","state":"not met","found":"all is ill","remedy":"mend it"}`; strings.Split(lines.String(), "\n")[1] != want {
		t.Errorf("got %s", &lines)
	}
	if Worst(needs) != Unmet || Worst(needs[:1]) != Met || Worst([]Need{needs[0], needs[2]}) != Unknown {
		t.Error("the worst state is another")
	}
}
