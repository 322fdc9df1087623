package nvml

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
)

const gib = 1 << 30

// node is a /proc that a test writes, and what the driver says.
type node struct {
	t      *testing.T
	root   string
	sample Sample
	claims []Claim
	open   bool
	owners *Owners
}

func newNode(t *testing.T) *node {
	n := &node{t: t, root: t.TempDir()}
	n.owners = NewOwners(OwnersConfig{Proc: n.root, Node: "n", Local: true})
	n.run(2, 0, "kthreadd", "2")
	n.kernel(2)
	n.gpu("GPU-a", "")
	return n
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// run starts a process: pids are its numbers, from the node's namespace inwards.
func (n *node) run(pid, parent int, exe, pids string) {
	n.t.Helper()
	dir := filepath.Join(n.root, strconv.Itoa(pid))
	must(n.t, os.MkdirAll(dir, 0o700))
	name := filepath.Base(exe)
	must(n.t, os.WriteFile(filepath.Join(dir, "status"), fmt.Appendf(nil, "Name:\t%s\nPPid:\t%d\nNSpid:\t%s\n", name, parent, pids), 0o600))
	n.stat(pid, parent, name, 0)
	if filepath.IsAbs(exe) {
		must(n.t, os.Symlink(exe, filepath.Join(dir, "exe")))
	}
}

func (n *node) stat(pid, parent int, name string, flags uint) {
	n.t.Helper()
	text := fmt.Sprintf("%d (%s) S %d 0 0 0 0 %d%s %d 0", pid, name, parent, flags, strings.Repeat(" 0", 12), 1000+pid)
	must(n.t, os.WriteFile(filepath.Join(n.root, strconv.Itoa(pid), "stat"), []byte(text), 0o600))
}

func (n *node) kernel(pid int) { n.stat(pid, 0, "kthreadd", kernelThread) }

func (n *node) end(pid int) { must(n.t, os.RemoveAll(filepath.Join(n.root, strconv.Itoa(pid)))) }

// gpu adds a device, of 80 GiB.
func (n *node) gpu(uuid, parent string) {
	total, used := uint64(80*gib), uint64(gib/2)
	n.sample.Devices = append(n.sample.Devices, Device{UUID: uuid, Parent: parent, State: OK, Listed: OK, Total: &total, Used: &used})
}

// holds has the driver list a process of the device at that index.
func (n *node) holds(device int, pid uint32, bytes uint64) {
	d := &n.sample.Devices[device]
	d.Processes = slices.DeleteFunc(d.Processes, func(p Process) bool { return p.PID == pid })
	if bytes > 0 {
		d.Processes = append(d.Processes, Process{pid, &bytes})
	}
	used := uint64(gib / 2)
	for _, p := range d.Processes {
		used += *p.Bytes
	}
	d.Used = &used
}

// take takes samples until what follows is said: the third says all.
func (n *node) take() (a Account, facts []*lifecycle.Fact) {
	for range 3 {
		a, facts = n.once(facts)
	}
	return a, facts
}

func (n *node) once(facts []*lifecycle.Fact) (Account, []*lifecycle.Fact) {
	n.sample.Begun += 1e9
	for i := range n.claims {
		n.claims[i].Used++
	}
	sample := n.sample
	sample.Devices = slices.Clone(n.sample.Devices)
	a, more := n.owners.Take(&sample, slices.Clone(n.claims), n.open)
	return a, append(facts, more...)
}

func said(facts []*lifecycle.Fact) (all []string) {
	for _, f := range facts {
		all = append(all, fmt.Sprintf("%s %d on %s: %d GiB", f.Inst, f.VRAM.PID, f.VRAM.GPU, f.Bytes/gib))
	}
	return all
}

func (n *node) want(a Account, facts []*lifecycle.Fact, want ...string) {
	n.t.Helper()
	if got := said(facts); !slices.Equal(got, want) {
		n.t.Errorf("said %q, want %q; %+v", got, want, a)
	}
}

// why is what keeps the instance from being told.
func why(a Account) string {
	if len(a.Instances) == 0 {
		return a.Problem
	}
	return a.Instances[0].Why
}

// engine is an instance in a container: its process 7 is the node's 4711, started by
// 4700, and holds 40 GiB for a pool of 30.
func (n *node) engine() {
	n.run(4700, 1, "/usr/bin/python3", "4700 1")
	n.run(4711, 4700, "/usr/bin/python3", "4711 7")
	n.holds(0, 4711, 40*gib)
	n.claims = []Claim{{Instance: "d", PIDs: []int64{7}, Bytes: 30 * gib, Live: true}}
}

func TestAProcessIsToldByItsNumberInItsOwnNamespace(t *testing.T) {
	n := newNode(t)
	n.engine()
	a, facts := n.take()
	n.want(a, facts, "d 7 on GPU-a: 40 GiB")
	if s := a.Shares[0]; !s.Known || s.Bytes[Engine] != 40*gib || s.Bytes[Unlisted] != gib/2 {
		t.Errorf("%+v", s)
	}
	if f := facts[0]; f.Src != lifecycle.NVML || f.VRAM.TotalBytes.V != 80*gib || f.Node != "n" {
		t.Errorf("%+v", f)
	}
}

func TestWorkersAreTheirInstances(t *testing.T) {
	n := newNode(t)
	n.engine()
	n.run(4720, 4711, "/opt/worker", "4720 16")          // started by it
	n.run(4730, 4700, "/usr/bin/python3", "4730 26")     // by its launcher
	n.run(4740, 4730, "/usr/bin/nvcc-helper", "4740 36") // by that
	n.holds(0, 4720, 5*gib)
	n.holds(0, 4730, 2*gib)
	n.holds(0, 4740, 1*gib)
	a, facts := n.take()
	n.want(a, facts, "d 7 on GPU-a: 48 GiB")
}

func TestAProcessThatCouldBeTwoIsNeither(t *testing.T) {
	n := newNode(t)
	n.engine()
	n.run(5000, 1, "/usr/bin/other", "5000 7")
	a, facts := n.take()
	n.want(a, facts)
	if a.Shares[0].Bytes[Unattributed] != 40*gib || a.Shares[0].Bytes[Foreign] != 0 {
		t.Errorf("%+v", a.Shares[0])
	}
	// The socket that the instance serves tells.
	n = newNode(t)
	n.engine()
	n.run(5000, 1, "/usr/bin/other", "5000 7")
	n.claims[0].Serving = 4700
	a, facts = n.take()
	n.want(a, facts, "d 7 on GPU-a: 40 GiB")
}

// A sidecar that sees other processes under these numbers joins none: without the
// node's /proc, and where the only process of that number uses no GPU.
func TestNothingIsJoinedBlindly(t *testing.T) {
	n := newNode(t)
	n.engine()
	n.stat(2, 0, "kvwitness", 0)
	a, facts := n.take()
	n.want(a, facts)
	if a.Problem == "" || a.Shares[0].Bytes[Unattributed] != 40*gib {
		t.Errorf("%+v", a)
	}
	n = newNode(t)
	n.run(4711, 1, "/usr/bin/other", "4711 7")
	n.claims = []Claim{{Instance: "d", PIDs: []int64{7}, Bytes: 30 * gib, Live: true}}
	a, facts = n.take()
	if n.want(a, facts); why(a) == "" {
		t.Errorf("%+v", a)
	}
}

func TestAForeignProcessIsToldOnceItStays(t *testing.T) {
	n := newNode(t)
	n.engine()
	a, facts := n.take()
	n.want(a, facts, "d 7 on GPU-a: 40 GiB")
	n.run(6000, 1, "/usr/bin/miner", "6000 1")
	n.holds(0, 6000, 3*gib)
	if _, facts = n.once(nil); facts != nil {
		t.Errorf("said %q at once", said(facts))
	}
	a, facts = n.take()
	n.want(a, facts, "d 6000 on GPU-a: 3 GiB")
	if a.Shares[0].Bytes[Foreign] != 3*gib {
		t.Errorf("%+v", a.Shares[0])
	}
}

func TestWhoMayUseTheGPUIsNoStranger(t *testing.T) {
	for exe, want := range map[string]Class{
		"/usr/bin/dcgm-exporter": Allowed, "/usr/bin/nvidia-smi": Allowed, "/opt/own/tool": Allowed, "/opt/other/tool": Foreign,
		"dcgm-exporter": Unattributed, // its executable may not be read
		"miner":         Foreign,
	} {
		n := newNode(t)
		n.owners = NewOwners(OwnersConfig{Proc: n.root, Node: "n", Local: true, Allow: []string{"/opt/own/to*"}})
		n.engine()
		n.run(6000, 1, exe, "6000")
		n.holds(0, 6000, gib)
		a, facts := n.take()
		if a.Shares[0].Bytes[want] != gib || (len(facts) == 2) != (want == Foreign) {
			t.Errorf("%s: %+v, %q", exe, a.Shares[0], said(facts))
		}
	}
}

// A process has no business with an engine's memory unless it is of its family or allowed;
// of one that is gone that is not known.
func TestWhoIsOfTheFamilyIsNoStranger(t *testing.T) {
	n := newNode(t)
	n.engine()
	n.run(4712, 4700, "/usr/bin/python3", "4712 8") // a worker of the same launcher
	n.run(4713, 4711, "/opt/helper", "4713 9")
	n.run(6000, 1, "/opt/other/tool", "6000")
	n.run(6001, 1, "/usr/bin/nvidia-smi", "6001")
	for pid, want := range map[int]bool{4712: false, 4713: false, 6000: true, 6001: false, 7777: false} {
		if got := (OwnersConfig{Proc: n.root}).Strange(pid, 4711); got != want {
			t.Errorf("process %d is strange: %v", pid, got)
		}
	}
	if (OwnersConfig{Proc: n.root, Allow: []string{"/opt/other/*"}}).Strange(6000, 4711) || (OwnersConfig{Proc: n.root}).Strange(6000, 7777) {
		t.Error("who is allowed, or whose owner is gone, is strange")
	}
}

// On a GPU that no engine uses, and while an engine's processes are not known, nobody
// is a stranger.
func TestAStrangerIsOneOnAnEnginesGPU(t *testing.T) {
	n := newNode(t)
	n.engine()
	n.gpu("GPU-b", "")
	n.run(6000, 1, "/usr/bin/other", "6000")
	n.holds(1, 6000, gib)
	a, facts := n.take()
	n.want(a, facts, "d 7 on GPU-a: 40 GiB")
	n.holds(0, 6000, gib)
	n.claims = append(n.claims, Claim{Instance: "e", Live: true})
	a, facts = n.take()
	n.want(a, facts)
	n.claims, n.open = n.claims[:1], true
	a, facts = n.take()
	n.want(a, facts)
	if a.Shares[0].Bytes[Unattributed] != gib {
		t.Errorf("%+v", a.Shares)
	}
}

func TestTwoInstancesOnOneGPUAreTwo(t *testing.T) {
	n := newNode(t)
	n.engine()
	n.run(4811, 1, "/usr/bin/vllm", "4811 9")
	n.holds(0, 4811, 20*gib)
	n.claims = append(n.claims, Claim{Instance: "p", PIDs: []int64{9}, Bytes: 10 * gib, Live: true})
	a, facts := n.take()
	n.want(a, facts, "d 7 on GPU-a: 40 GiB", "p 9 on GPU-a: 20 GiB")
	// Two that call themselves the same are told apart by no judge.
	n = newNode(t)
	n.engine()
	n.run(4811, 1, "/usr/bin/vllm", "4811 7")
	n.holds(0, 4811, 20*gib)
	n.claims[0].Serving = 4711
	n.claims = append(n.claims, Claim{Instance: "p", PIDs: []int64{7}, Bytes: 10 * gib, Live: true, Serving: 4811})
	a, facts = n.take()
	n.want(a, facts)
	if a.Shares[0].Bytes[Engine] != 60*gib {
		t.Errorf("%+v", a.Shares)
	}
}

// The judge adds up what it is told as it comes: what a process holds elsewhere must
// not make it seem that it holds too little, for a moment.
func TestWhatIsHeldOnSeveralGPUsAccusesNobodyOnTheWay(t *testing.T) {
	n := newNode(t)
	n.engine()
	n.gpu("GPU-0", "")
	n.holds(1, 4711, gib)
	a, facts := n.take()
	n.want(a, facts, "d 7 on GPU-a: 40 GiB", "d 7 on GPU-0: 1 GiB")
	n = newNode(t)
	n.engine()
	n.gpu("GPU-0", "")
	n.holds(0, 4711, 20*gib)
	n.holds(1, 4711, 20*gib)
	a, facts = n.take()
	if n.want(a, facts); !strings.Contains(why(a), "several GPUs") {
		t.Errorf("%+v", a)
	}
}

func TestMIGInstancesAreDevicesOfTheirOwn(t *testing.T) {
	n := newNode(t)
	n.engine()
	n.holds(0, 4711, 0)
	n.sample.Devices[0].Split, n.sample.Devices[0].Listed = true, Unread
	n.gpu("MIG-1", "GPU-a")
	n.gpu("MIG-2", "GPU-a")
	n.holds(1, 4711, 35*gib)
	n.run(6000, 1, "/usr/bin/other", "6000")
	n.holds(2, 6000, gib) // beside it, in an instance of its own
	a, facts := n.take()
	n.want(a, facts, "d 7 on MIG-1: 35 GiB")
	if a.Shares[1].Parent != "GPU-a" || a.Shares[1].Bytes[Engine] != 35*gib || a.Shares[0].Bytes[Engine] != 0 {
		t.Errorf("%+v", a.Shares)
	}
}

// A pool that holds too little is told if it is used, and not while it sleeps.
func TestAPoolThatSleepsIsNoMismatch(t *testing.T) {
	n := newNode(t)
	n.engine()
	n.take()
	n.holds(0, 4711, gib)
	used := n.claims[0].Used
	for range 5 {
		n.claims[0].Used = used // which grows by one: it stays the same
		a, facts := n.once(nil)
		if n.want(a, facts); !strings.Contains(why(a), "sleeps") || !a.Instances[0].Seen || a.Instances[0].Held != gib {
			t.Errorf("%+v", a)
		}
	}
	n.holds(0, 4711, 40*gib) // it wakes
	a, facts := n.take()
	n.want(a, facts, "d 7 on GPU-a: 40 GiB")
	n.holds(0, 4711, 20*gib) // and is used with less than it says
	a, facts = n.take()
	n.want(a, facts, "d 7 on GPU-a: 20 GiB")
}

func TestAPoolThatOutlivesItsProcessHoldsNothing(t *testing.T) {
	n := newNode(t)
	n.engine()
	n.take()
	n.end(4711)
	n.holds(0, 4711, 0)
	a, facts := n.take()
	n.want(a, facts, "d 7 on GPU-a: 0 GiB")
	// One that has ended with its stream is only gone.
	n = newNode(t)
	n.engine()
	n.take()
	n.end(4711)
	n.holds(0, 4711, 0)
	n.claims[0].Live = false
	a, facts = n.take()
	n.want(a, facts)
	// Under the same number it begins anew.
	n.run(4999, 4700, "/usr/bin/python3", "4999 7")
	n.holds(0, 4999, 33*gib)
	n.claims[0].Live, n.claims[0].Since = true, n.sample.Begun+1
	a, facts = n.take()
	n.want(a, facts, "d 7 on GPU-a: 33 GiB")
}

// Nothing is said of an instance while it may hold more than is seen.
func TestWhatIsNotSeenIsNotZero(t *testing.T) {
	for what, change := range map[string]func(n *node){
		"a process cannot be found":          func(n *node) { n.holds(0, 9999, gib) },
		"the number is of another namespace": func(n *node) { n.holds(0, 2, gib) },
		"a process has no bytes": func(n *node) {
			n.sample.Devices[0].Processes = append(n.sample.Devices[0].Processes, Process{PID: 4700})
		},
		"the list is empty":          func(n *node) { n.sample.Devices[0].Processes = nil },
		"the lists differ":           func(n *node) { n.sample.Devices[0].Listed = Disputed },
		"the GPU is lost":            func(n *node) { n.sample.Devices[0] = Device{UUID: "GPU-a", State: Lost} },
		"the GPU has vanished":       func(n *node) { n.sample.Devices = nil; n.gpu("GPU-b", "") },
		"another GPU is lost":        func(n *node) { n.sample.Devices = append(n.sample.Devices, Device{State: Lost}) },
		"an MPS server holds memory": func(n *node) { n.run(6000, 1, "/usr/bin/"+mpsServer, "6000"); n.holds(0, 6000, gib) },
		"it has opened another pool": func(n *node) { n.claims[0].Since = 1 << 60 },
	} {
		n := newNode(t)
		n.engine()
		n.take()
		change(n)
		n.claims[0].Bytes = 70 * gib
		if a, facts := n.take(); facts != nil || why(a) == "" || a.Instances[0].Seen {
			t.Errorf("%s: said %q", what, said(facts))
		}
	}
}

func TestWhatStaysTheSameIsSaidAgainNowAndThen(t *testing.T) {
	n := newNode(t)
	n.engine()
	times := 0
	for range 30 {
		_, facts := n.once(nil)
		times += len(facts)
	}
	if times != 3 {
		t.Errorf("said %d times in half a minute", times)
	}
}
