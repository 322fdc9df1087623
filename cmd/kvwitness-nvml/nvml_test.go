//go:build linux && cgo

package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/dgxh200"

	"github.com/kvwitness/kvwitness/sidecar/source/nvml"
	mock "github.com/kvwitness/kvwitness/test/nvml"
)

const gib = 1 << 30

// plain is a node with a GPU, and one that is split.
var plain = mock.Script{
	fmt.Sprintf("gpu GPU-a %d %d", 80*gib, 41*gib), fmt.Sprintf("process GPU-a compute 4711 %d", 40*gib),
	fmt.Sprintf("gpu GPU-b %d %d", 80*gib, 11*gib), fmt.Sprintf("mig GPU-b MIG-1 %d %d", 20*gib, 10*gib),
	fmt.Sprintf("process MIG-1 compute 4712 %d", 10*gib), "ecc GPU-a 3 1", "confidential 1",
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// bench is the command, built as it is shipped.
type bench struct{ path string }

var built = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "kvwitness-nvml")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, nvml.Command)
	if out, err := exec.Command("go", "build", "-o", path, ".").CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w\n%s", err, out)
	}
	return path, nil
})

func TestMain(m *testing.M) {
	status := m.Run()
	if path, err := built(); err == nil {
		os.RemoveAll(filepath.Dir(path))
	}
	os.Exit(status)
}

func newBench(t *testing.T) bench {
	t.Helper()
	path, err := built()
	must(t, err)
	return bench{path}
}

func newDriver(t *testing.T) *mock.Driver {
	t.Helper()
	d, err := mock.Build(t.TempDir())
	must(t, err)
	return d
}

// samples runs the command on a copy of the driver with that script, until it ends.
func (b bench) samples(t *testing.T, d mock.Driver, dir string, s mock.Script, args ...string) (all []*nvml.Sample, err error) {
	t.Helper()
	own, buildErr := d.At(dir)
	if buildErr != nil {
		return nil, buildErr
	}
	if err := own.Answer(s); err != nil {
		return nil, err
	}
	cmd := exec.Command(b.path, append([]string{"--library", own.Library}, args...)...)
	name, value := own.Env()
	cmd.Env = append(os.Environ(), name+"="+value)
	in, err := cmd.StdinPipe() // that never ends: the command does
	if err != nil {
		return nil, err
	}
	defer in.Close()
	out, err := cmd.Output()
	for line := range bytes.Lines(out) {
		one, decodeErr := nvml.Decode(bytes.TrimSpace(line))
		if decodeErr != nil {
			return nil, decodeErr
		}
		all = append(all, one)
	}
	return all, err
}

func TestASampleIsWhatTheDriverSays(t *testing.T) {
	b, d := newBench(t), newDriver(t)
	all, err := b.samples(t, *d, t.TempDir(), plain, "--once")
	if err != nil || len(all) != 1 {
		t.Fatalf("%d samples, %v", len(all), err)
	}
	s := all[0]
	if s.State != nvml.OK || s.Count != 2 || len(s.Devices) != 3 || s.Confidential != "on" || s.Driver != "550.54.15" {
		t.Fatalf("%+v", s)
	}
	a, split, mig := s.Devices[0], s.Devices[1], s.Devices[2]
	if a.UUID != "GPU-a" || *a.Total != 80*gib || *a.Used != 41*gib || a.Listed != nvml.OK || *a.Corrected != 3 || *a.Uncorrected != 1 || a.BAR1Used == nil {
		t.Errorf("%+v", a)
	}
	if len(a.Processes) != 1 || a.Processes[0].PID != 4711 || *a.Processes[0].Bytes != 40*gib {
		t.Errorf("%+v", a.Processes)
	}
	if !split.Split || split.Processes != nil || mig.Parent != "GPU-b" || mig.UUID != "MIG-1" || *mig.Processes[0].Bytes != 10*gib {
		t.Errorf("%+v, %+v", split, mig)
	}
}

// What keeps the driver from being asked has a word of its own each.
func TestEveryFailureOfTheLibraryHasItsWord(t *testing.T) {
	b, d := newBench(t), newDriver(t)
	for code, want := range map[int]nvml.State{9: nvml.NotLoaded, 18: nvml.Differ, 4: nvml.NoPermission, 999: nvml.Failed} {
		all, err := b.samples(t, *d, t.TempDir(), plain.Say("fail nvmlInit %d", code))
		if err == nil || len(all) != 1 || all[0].State != want || all[0].Call != "nvmlInit" || all[0].Devices != nil {
			t.Errorf("%d: %v, %+v", code, err, all)
		}
	}
	if all, err := b.samples(t, *d, t.TempDir(), nil, "--once"); err != nil || all[0].State != nvml.NoGPU {
		t.Errorf("no GPU: %v, %+v", err, all)
	}
	out, err := exec.Command(b.path, "--library", filepath.Join(t.TempDir(), "libnvidia-ml.so.1")).Output()
	if s, decodeErr := nvml.Decode(bytes.TrimSpace(out)); err == nil || decodeErr != nil || s.State != nvml.NoDriver {
		t.Errorf("no library: %v, %s", err, out)
	}
}

// loud are the calls without which a sample is not whole; what the others answer
// is left out.
var loud = []string{
	"nvmlInit", "nvmlDeviceGetCount", "nvmlDeviceGetHandleByIndex", "nvmlDeviceGetUUID", "nvmlDeviceGetMemoryInfo",
	"nvmlDeviceGetComputeRunningProcesses", "nvmlDeviceGetMaxMigDeviceCount", "nvmlDeviceGetMigDeviceHandleByIndex",
}

// Each call may fail, answer nothing, or take the process with it; what comes before
// it is still told, and nothing that was not read is a number.
func TestEachCallMayFailOrAnswerNothing(t *testing.T) {
	b, d := newBench(t), newDriver(t)
	for _, call := range mock.Calls {
		for _, how := range []string{"fail %s 999", "fail %s 3", "blank %s"} {
			line := fmt.Sprintf(how, call)
			all, err := b.samples(t, *d, t.TempDir(), plain.Say("%s", line), "--once")
			if len(all) != 1 || err != nil && call != "nvmlInit" && call != "nvmlDeviceGetCount" {
				t.Errorf("%s: %v, %+v", line, err, all)
				continue
			}
			whole := all[0].State == nvml.OK
			for i := range all[0].Devices {
				d := &all[0].Devices[i]
				whole = whole && d.State == nvml.OK && (d.Split || d.Listed == nvml.OK)
				if d.Total != nil && *d.Total == 0 {
					t.Errorf("%s: %s has no memory", line, d.UUID)
				}
			}
			if how == "fail %s 999" && slices.Contains(loud, call) && whole {
				t.Errorf("%s: everything was read: %+v", line, all[0])
			}
		}
	}
}

func TestACallThatCrashesOrHangsIsToldAndEndsTheProcess(t *testing.T) {
	b, d := newBench(t), newDriver(t)
	var side sync.WaitGroup
	for _, call := range mock.Calls {
		if call == "nvmlShutdown" {
			continue // asked for at the end alone
		}
		crash, hang := t.TempDir(), t.TempDir()
		side.Go(func() {
			if _, err := b.samples(t, *d, crash, plain.Say("crash %s", call), "--every", "500ms"); err == nil {
				t.Errorf("%s crashes, and the process ends well", call)
			}
		})
		side.Go(func() {
			all, err := b.samples(t, *d, hang, plain.Say("hang %s", call), "--every", "500ms", "--deadline", "4s")
			if err == nil || len(all) == 0 {
				t.Errorf("%s hangs: %d samples, %v", call, len(all), err)
				return
			}
			if last := all[len(all)-1]; last.State != nvml.Hangs || last.Call != call {
				t.Errorf("%s hangs: %+v", call, last)
			}
		})
	}
	side.Wait()
}

func TestAGPUThatIsLostIsNoGPUWithNothing(t *testing.T) {
	b, d := newBench(t), newDriver(t)
	all, err := b.samples(t, *d, t.TempDir(), plain.Say("fail nvmlDeviceGetMemoryInfo 15 GPU-a"), "--once")
	must(t, err)
	a, rest := all[0].Devices[0], all[0].Devices[1:]
	if a.State != nvml.Lost || a.Total != nil || a.Processes != nil || rest[0].State != nvml.OK || rest[1].Listed != nvml.OK {
		t.Errorf("%+v", all[0].Devices)
	}
}

// A process in two lists is one; where they differ nothing is concluded. One of which
// the driver says no bytes, or 0, holds an amount that is not known.
func TestListsThatContradictAreDisputed(t *testing.T) {
	b, d := newBench(t), newDriver(t)
	for line, want := range map[string]nvml.State{
		fmt.Sprintf("process GPU-a graphics 4711 %d", 40*gib): nvml.OK,
		fmt.Sprintf("process GPU-a graphics 4711 %d", 39*gib): nvml.Disputed,
		fmt.Sprintf("process GPU-a compute 4713 %d", 79*gib):  nvml.Disputed,
		"process GPU-a mps 4713 0":                            nvml.OK,
		"process GPU-a mps 4713 -1":                           nvml.OK,
	} {
		all, err := b.samples(t, *d, t.TempDir(), plain.Say("%s", line), "--once")
		must(t, err)
		a := all[0].Devices[0]
		if a.Listed != want {
			t.Errorf("%s: %v, want %v", line, a.Listed, want)
		}
		if n := len(a.Processes); n == 2 && want == nvml.OK && a.Processes[1].Bytes != nil {
			t.Errorf("%s: %d bytes", line, *a.Processes[1].Bytes)
		}
	}
	all, err := b.samples(t, *d, t.TempDir(), plain.Say("driver 535.86.10"), "--once")
	if err != nil || all[0].Devices[0].Listed != nvml.Untrusted || all[0].Devices[0].Processes != nil {
		t.Errorf("a driver that is known to answer wrongly: %v, %+v", err, all)
	}
}

func TestErrorsOfAGPUAreCounted(t *testing.T) {
	b, d := newBench(t), newDriver(t)
	own, err := d.At(t.TempDir())
	must(t, err)
	must(t, own.Answer(plain.Say("xid GPU-a 79 2").Say("xid GPU-a 13 1").Say("xid GPU-c 1 1")))
	t.Setenv(own.Env())
	child, err := nvml.Start(nvml.StartConfig{Path: b.path, Library: own.Library, Every: time.Millisecond, Stderr: os.Stderr})
	must(t, err)
	defer child.Close()
	for until := time.Now().Add(time.Minute); ; {
		s, err := child.Next()
		must(t, err)
		if slices.Equal(s.Devices[0].XIDs, []nvml.XID{{Code: 79, Count: 2}, {Code: 13, Count: 1}}) {
			break
		}
		if time.Now().After(until) {
			t.Fatalf("%+v", s.Devices[0].XIDs)
		}
	}
	// After an error, 0 is no number.
	must(t, own.Answer(mock.Script{fmt.Sprintf("gpu GPU-a %d 0", 80*gib)}))
	for until := time.Now().Add(time.Minute); ; {
		s, err := child.Next()
		must(t, err)
		if d := s.Devices[0]; len(s.Devices) == 1 && d.State == nvml.Blank && d.Used == nil {
			return
		}
		if time.Now().After(until) {
			t.Fatalf("%+v", s.Devices)
		}
	}
}

// answered is what the mock node of go-nvml can be asked.
var answered = []string{"nvmlSystemGetDriverVersion", "nvmlDeviceGetCount", "nvmlDeviceGetHandleByIndex", "nvmlDeviceGetUUID", "nvmlDeviceGetName", "nvmlDeviceGetMemoryInfo", "nvmlDeviceGetMigMode"}

// A library that lacks functions is read as far as it has them: here go-nvml's node of
// eight H200.
func TestALibraryThatLacksFunctionsIsReadAsFarAsItGoes(t *testing.T) {
	lib := dgxh200.New()
	lib.LookupSymbolFunc = func(symbol string) error {
		if slices.Contains(answered, symbol) {
			return nil
		}
		return errors.New("no such symbol")
	}
	var out bytes.Buffer
	must(t, sampling(t.Context(), lib, settings{every: time.Second, deadline: time.Minute, once: true}, &output{to: &out}))
	s, err := nvml.Decode(bytes.TrimSpace(out.Bytes()))
	must(t, err)
	if s.State != nvml.OK || s.Count != 8 || len(s.Devices) != 8 {
		t.Fatalf("%v: %d of %d", s.State, len(s.Devices), s.Count)
	}
	for _, d := range s.Devices {
		if d.State != nvml.OK || d.UUID == "" || d.Total == nil || d.Listed != nvml.Unsupported || d.Processes != nil || d.Corrected != nil {
			t.Errorf("%+v", d)
		}
	}
}

// Built without cgo, the command says that it cannot ask, and is all that is missing.
func TestWithoutCgoItSaysThatItCannotAsk(t *testing.T) {
	path := filepath.Join(t.TempDir(), nvml.Command)
	build := exec.Command("go", "build", "-o", path, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	out, err := exec.Command(path).Output()
	s, decodeErr := nvml.Decode(bytes.TrimSpace(out))
	if err == nil || decodeErr != nil || s.State != nvml.NotBuilt || s.State.Remedy() == "" {
		t.Errorf("%v, %v, %s", err, decodeErr, out)
	}
}
