package daemon

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kvwitness/kvwitness/engine/kvcache"
	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/engine/lifecycle/publish"
	"github.com/kvwitness/kvwitness/sidecar/source/nvml"
	mock "github.com/kvwitness/kvwitness/test/nvml"
)

const gib = 1 << 30

// helperDir holds kvwitness-nvml, built as it is shipped.
var helperDir = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "kvwitness-nvml")
	if err != nil {
		return "", err
	}
	if out, err := exec.Command("go", "build", "-o", filepath.Join(dir, nvml.Command), "../../cmd/kvwitness-nvml").CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w\n%s", err, out)
	}
	return dir, nil
})

func TestMain(m *testing.M) {
	status := m.Run()
	if dir, err := helperDir(); err == nil {
		os.RemoveAll(dir)
	}
	os.Exit(status)
}

// box is a node with GPUs: a sidecar, a driver that answers what the test says, and an
// instance of which a process is the engine.
type box struct {
	*table
	driver *mock.Driver
	pool   *publish.Pool
	engine int // its process
	worker int // that it started
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// run starts a program that does nothing, and returns its number and, where it is a
// shell, that of the program that it started in turn.
func run(t *testing.T, name string, args ...string) (pid, started int) {
	t.Helper()
	cmd := exec.Command(name, args...)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	if strings.HasSuffix(name, "sh") {
		_, err = fmt.Fscan(out, &started)
		must(t, err)
		t.Cleanup(func() { p, _ := os.FindProcess(started); _ = p.Kill() })
	}
	return cmd.Process.Pid, started
}

const shell, shellWithChild = "/bin/sh", "sleep 600 & echo $!; wait"

// await waits for what needs processes to start and to be asked several times.
func await(t *testing.T, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !done(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s did not come about", what)
		}
	}
}

// newBox starts all of it: the pool takes 10 GiB.
func newBox(t *testing.T, more string) *box {
	t.Helper()
	helper, err := helperDir()
	must(t, err)
	t.Setenv("PATH", helper+":"+os.Getenv("PATH"))
	b := &box{}
	b.driver, err = mock.Build(t.TempDir())
	must(t, err)
	t.Setenv(b.driver.Env())
	b.engine, b.worker = run(t, shell, "-c", shellWithChild)
	b.answer(t, b.plain())
	dir := shortDir(t)
	b.table = newTable(t, fmt.Sprintf("engines: 'a=;instance=i'\nevents_dir: %s\ngpus: required\ngpu_every: 100ms\ngpu_library: %s\n%s", dir, b.driver.Library, more))
	p, err := publish.New(t.Context(), publish.Config{Identity: publish.Identity{Instance: "i", Epoch: 1, Now: now}, Dir: dir})
	must(t, err)
	t.Cleanup(func() { _ = p.Close(context.Background()) })
	b.pool, err = p.PoolEvents("kv", lifecycle.PoolSpec{Pages: 10, PageTokens: 16, PageBytes: gib, PIDs: []int64{int64(b.engine)}})
	must(t, err)
	ctx, stop := context.WithCancel(context.Background())
	used := make(chan struct{})
	go func() { defer close(used); b.use(ctx) }()
	t.Cleanup(func() { stop(); <-used })
	return b
}

// use has the engine use its pool.
func (b *box) use(ctx context.Context) {
	for n := uint64(1); ctx.Err() == nil; n++ {
		req, page := kvcache.Req(n), []kvcache.Run{{First: 1, Count: 1}}
		b.pool.Reserved(kvcache.At{Now: now()}, req, page)
		b.pool.Released(kvcache.At{Now: now()}, req, page)
		time.Sleep(20 * time.Millisecond)
	}
}

// plain is a GPU on which the engine holds 12 GiB, of which its worker 1.
func (b *box) plain() mock.Script {
	return mock.Script{}.Say("gpu GPU-a %d %d", 80*gib, 13*gib).Say("gpu GPU-b %d %d", 80*gib, gib/2).
		Say("process GPU-a compute %d %d", b.engine, 11*gib).Say("process GPU-a compute %d %d", b.worker, gib)
}

func (b *box) answer(t *testing.T, s mock.Script) {
	t.Helper()
	must(t, b.driver.Answer(s))
}

// gpuState is what the state says of GPUs.
func (b *box) gpuState() *GPUsState {
	b.t.Helper()
	var s struct {
		GPUs *GPUsState `json:"gpus"`
	}
	must(b.t, json.Unmarshal([]byte(b.get("/api/v1/state")), &s))
	if s.GPUs == nil {
		return &GPUsState{}
	}
	return s.GPUs
}

func (b *box) known() bool {
	s := b.gpuState()
	return len(s.Instances) == 1 && s.Instances[0].Unknown == "" && s.Instances[0].Held > 0
}

func (b *box) finds(text ...string) bool {
	found := b.get("/api/v1/findings")
	return strings.Contains(found, "vram_mismatch") && !slices.ContainsFunc(text, func(s string) bool { return !strings.Contains(found, s) })
}

// samples waits until the driver was asked that many times more.
func (b *box) samples(n int) {
	b.t.Helper()
	var last *nvml.Sample
	await(b.t, "samples", func() bool {
		if s := b.gpus.keeper.Status().Last; s != nil && s != last {
			last = s
			n--
		}
		return n < 0
	})
}

// What the driver says of an engine's processes, its workers too, is told, and accuses
// nobody while it is enough.
func TestTheMemoryOfAnEngineIsToldByWhoseItIs(t *testing.T) {
	b := newBox(t, "")
	await(t, "what the engine holds", b.known)
	if held := b.gpuState().Instances[0].Held; held != 12*gib {
		t.Errorf("it holds %d bytes", held)
	}
	for _, says := range []string{
		fmt.Sprintf(`kvwitness_gpu_memory_used_bytes{gpu="GPU-a",mig="",owner="engine"} %g`, float64(12*gib)),
		fmt.Sprintf(`kvwitness_gpu_memory_used_bytes{gpu="GPU-a",mig="",owner="unlisted"} %g`, float64(gib)),
		fmt.Sprintf(`kvwitness_gpu_capacity_tokens{engine="a"} %d`, 80*16), // of 64 MiB each
		`kvwitness_driver_state{state="ok"} 1`, `kvwitness_gpu_readable{gpu="GPU-b"} 1`, `kvwitness_source_coverage{engine="a",source="nvml"} 1`,
	} {
		await(t, says, func() bool { return strings.Contains(b.get("/metrics"), says) })
	}
	b.samples(5)
	if b.finds() {
		t.Errorf("found %s", b.get("/api/v1/findings"))
	}
	if text := b.get("/metrics"); strings.Contains(text, fmt.Sprintf(`="%d"`, b.engine)) || strings.Contains(text, fmt.Sprintf(`="%d"`, b.worker)) {
		t.Error("a process is told")
	}
}

// What the pools could hold at most follows from what a token takes in all of them; where
// none says that, nothing does.
func TestThePoolsCouldHoldNoMoreThanTheGPU(t *testing.T) {
	o := newOpenings("n")
	open := func(pool string, s lifecycle.PoolSpec) {
		o.note(&lifecycle.Fact{Node: "n", Inst: "i", Src: lifecycle.Engine, Ev: lifecycle.PoolOpened, Pool: pool, Spec: &s})
	}
	open("host", lifecycle.PoolSpec{Pages: 4, PageTokens: 16, PageBytes: gib, Role: "host"})
	if _, _, ok := o.capacity("i", gib); ok {
		t.Error("it is said of a pool in host memory")
	}
	open("kv", lifecycle.PoolSpec{Pages: 4, PageTokens: 16, PageBytes: 1 << 20, ContextTokens: lifecycle.Some(int64(9000))})
	open("index", lifecycle.PoolSpec{Pages: 4, PageTokens: 16, PageBytes: 1 << 20})
	if tokens, context, ok := o.capacity("i", gib); !ok || tokens != 8192 || context != 9000 {
		t.Errorf("%g tokens, %d declared, %v", tokens, context, ok)
	}
	if _, _, ok := o.capacity("i", 0); ok {
		t.Error("it is said of no memory")
	}
}

func TestAPoolLargerThanWhatItsProcessesHoldIsFound(t *testing.T) {
	b := newBox(t, "")
	await(t, "what the engine holds", b.known)
	b.answer(t, b.plain()[:2].Say("process GPU-a compute %d %d", b.engine, 8*gib).Say("process GPU-a compute %d %d", b.worker, gib))
	await(t, "the finding", func() bool {
		return b.finds(fmt.Sprintf("its pools take %d bytes", 10*gib), fmt.Sprintf("hold %d bytes", 9*gib))
	})
}

func TestAPoolThatOutlivesItsProcessIsFound(t *testing.T) {
	b := newBox(t, "")
	await(t, "what the engine holds", b.known)
	for _, pid := range []int{b.engine, b.worker} {
		p, err := os.FindProcess(pid)
		must(t, err)
		must(t, p.Kill())
	}
	b.answer(t, mock.Script{}.Say("gpu GPU-a %d %d", 80*gib, gib).Say("gpu GPU-b %d %d", 80*gib, gib))
	await(t, "the finding", func() bool { return b.finds("hold 0 bytes") })
}

// A process that is no engine's on an engine's GPU is found, and one that is allowed,
// or that is on another GPU, is not.
func TestAForeignProcessOnAnEnginesGPUIsFound(t *testing.T) {
	b := newBox(t, "gpu_allow: '/*/*/own-tool'\n")
	copied := filepath.Join(shortDir(t), "own-tool")
	text, err := os.ReadFile("/bin/sleep")
	must(t, err)
	must(t, os.WriteFile(copied, text, 0o700))
	allowed, _ := run(t, copied, "600")
	foreign, _ := run(t, "/bin/sleep", "600")
	await(t, "what the engine holds", b.known)
	b.answer(t, b.plain().Say("process GPU-a compute %d %d", allowed, gib).Say("process GPU-b compute %d %d", foreign, gib))
	b.samples(5)
	if b.finds() {
		t.Fatalf("found %s", b.get("/api/v1/findings"))
	}
	b.answer(t, b.plain().Say("process GPU-a compute %d %d", foreign, gib))
	await(t, "the finding", func() bool {
		return b.finds(fmt.Sprintf("process %d, of no engine, holds %d bytes on GPU GPU-a", foreign, gib))
	})
	says := fmt.Sprintf(`kvwitness_gpu_memory_used_bytes{gpu="GPU-a",mig="",owner="foreign"} %g`, float64(gib))
	await(t, says, func() bool { return strings.Contains(b.get("/metrics"), says) })
}

// The pool of an engine on a MIG instance is compared with what it holds there, and
// its neighbour in another instance is none of its GPU.
func TestAMIGInstanceIsAGPUOfItsOwn(t *testing.T) {
	b := newBox(t, "")
	foreign, _ := run(t, "/bin/sleep", "600")
	b.answer(t, mock.Script{}.Say("gpu GPU-a %d %d", 80*gib, 14*gib).Say("mig GPU-a MIG-1 %d %d", 20*gib, 12*gib).Say("mig GPU-a MIG-2 %d %d", 20*gib, gib).
		Say("process MIG-1 compute %d %d", b.engine, 12*gib).Say("process MIG-2 compute %d %d", foreign, gib))
	says := fmt.Sprintf(`kvwitness_gpu_memory_used_bytes{gpu="GPU-a",mig="MIG-1",owner="engine"} %g`, float64(12*gib))
	await(t, says, func() bool { return strings.Contains(b.get("/metrics"), says) })
	b.samples(5)
	if b.finds() {
		t.Errorf("found %s", b.get("/api/v1/findings"))
	}
}

// A GPU that vanishes is missed; nothing is concluded of who used it, and the sidecar,
// which must be told, is not well.
func TestAGPUThatVanishesIsMissed(t *testing.T) {
	b := newBox(t, "")
	await(t, "what the engine holds", b.known)
	b.answer(t, mock.Script{}.Say("gpu GPU-b %d %d", 80*gib, gib/2))
	await(t, "that it is missed", func() bool { return strings.Contains(b.get("/metrics"), `kvwitness_gpu_readable{gpu="GPU-a"} 0`) })
	await(t, "that it is said", func() bool {
		s := b.gpuState()
		return len(s.Instances) > 0 && strings.Contains(s.Instances[0].Unknown, "GPU-a") && slices.ContainsFunc(s.Devices, func(d DeviceState) bool { return d.UUID == "GPU-a" && d.State == "gpu lost" })
	})
	b.samples(3)
	if b.finds() {
		t.Errorf("found %s", b.get("/api/v1/findings"))
	}
}

// Whatever becomes of a call, the sidecar stays up and scrapes are answered; the last
// sample stays with its age, and the helper is replaced.
func TestTheSidecarOutlivesItsDriver(t *testing.T) {
	b := newBox(t, "gpu_deadline: 2s\n")
	await(t, "what the engine holds", b.known)
	for line, state := range map[string]string{
		"hang nvmlDeviceGetMemoryInfo GPU-a":       "hangs",
		"crash nvmlDeviceGetName\nfail nvmlInit 9": "driver not loaded", // the next one meets it
	} {
		b.answer(t, b.plain().Say("%s", line))
		await(t, line, func() bool { return strings.Contains(b.get("/metrics"), `kvwitness_driver_state{state="`+state+`"} 1`) })
		await(t, "not well", func() bool { return !strings.Contains(b.get("/healthz"), `"ok"`) })
		if s := b.gpuState(); s.State != state || s.Age <= 0 || s.Remedy == "" || len(s.Devices) != 2 {
			t.Errorf("%s: %+v", line, s)
		}
		b.answer(t, b.plain())
		await(t, "another helper", func() bool { return b.gpus.keeper.Status().State == nvml.OK })
	}
	if b.gpuState().Starts < 4 || b.finds() {
		t.Errorf("%+v, %s", b.gpuState(), b.get("/api/v1/findings"))
	}
}

// Without a driver that is one line, and all else goes on.
func TestWithoutAGPUOneLineSaysSo(t *testing.T) {
	helper, err := helperDir()
	must(t, err)
	t.Setenv("PATH", helper+":"+os.Getenv("PATH"))
	dir := shortDir(t)
	tb := newTable(t, "engines: 'a=;instance=i'\nevents_dir: "+dir+"\ngpu_library: "+filepath.Join(dir, "none.so")+"\n")
	publisher(t, dir, "i")
	await(t, "that there is none", func() bool {
		return strings.Contains(tb.get("/metrics"), `kvwitness_driver_state{state="no driver"} 1`)
	})
	await(t, "sight", func() bool { return strings.Contains(tb.get("/healthz"), `"ok"`) })
	if n := strings.Count(tb.notes.String(), "no GPUs"); n != 1 {
		t.Errorf("%d lines:\n%s", n, tb.notes.String())
	}
}
