package witness

import (
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kvwitness/kvwitness/sidecar/finding"
	"github.com/kvwitness/kvwitness/test/commanded"
)

// target is a process in C that does with verbs what it is told
// (bpf/verbs/testdata/target.c).
type target struct {
	*commanded.Process
	t testing.TB
}

// startTarget starts one by a command line that ends in running it.
func startTarget(t testing.TB, args ...string) *target {
	t.Helper()
	return &target{commanded.Start(t, nil, args...), t}
}

func (p *target) do(format string, args ...any) {
	p.t.Helper()
	p.Do(p.t, format, args...)
}

// seen lets a target post until some of it is seen.
func (p *target) seen(w *witness, before uint64) {
	p.t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		p.do("qp 17 99")
		p.do("post 16 1 4096 0 0 0")
		if w.look(func() bool { return w.state.Stats().Posted > before }) {
			return
		}
	}
	p.t.Fatal("nothing that it posts is seen")
}

func targetPath(t *testing.T) string {
	t.Helper()
	dir, err := stubs()
	must(t, err)
	return filepath.Join(dir, "target")
}

// Promise: 200 processes that come at once, open devices, post and end, many of
// them while they are being attached to, are followed or not, and cost the others
// nothing: what a pair does meanwhile is witnessed.
func TestTwoHundredProcessesOfVerbsAtOnce(t *testing.T) {
	const many = 200
	path := targetPath(t)
	w := watch(t, knownPages, verbsPeers, "exe="+path)
	p := proved(t, w, 0)
	all := make([]*target, many)
	for i := range all {
		all[i] = startTarget(t, path)
	}
	want := map[string]finding.Outcome{}
	for i, c := range all {
		c.Tell(t, "open\nqp 17 99\npost 16 1 4096 4096 0 0\nreg 4096\n")
		if i%2 == 0 {
			c.Kill()
		}
		if i%50 == 0 {
			want[p.good()] = finding.Clean
		}
	}
	want[p.good()] = finding.Clean
	want[p.handoff(eight, p.post("first", p.whole(eight[0])))] = finding.Violated
	for _, c := range all {
		c.Kill()
	}
	w.await("posts of the others", func() bool { return w.state.Stats().Posted > 16*many/8 })
	expect(t, w, want)
}

// Promise: a process in a mount namespace of its own, with a libibverbs that is
// nowhere else, is attached to.
func TestAContainerWithItsOwnLibraryIsSeen(t *testing.T) {
	dir := filepath.Dir(targetPath(t))
	w := watch(t, knownPages, "exe=/mnt/own/target")
	p := startTarget(t, "unshare", "-m", "sh", "-c", "mount -t tmpfs none /mnt && mkdir /mnt/own && cp "+dir+"/* /mnt/own/ && exec /mnt/own/target")
	p.do("open")
	p.seen(w, 0)
	w.close()
}

// Promise: a provider without a table of its functions is not attached to, and
// that is said.
func TestAProviderThatCannotBeReadIsSaid(t *testing.T) {
	w := watch(t, knownPages, verbsPeers)
	p := proved(t, w, 0)
	p.prefill.do("device", map[string]any{"device": "bare", "provider": "libbare-rdmav34.so"})
	w.await("why", func() bool { return strings.Contains(strings.Join(w.problems, " "), "no table of functions") })
	want := map[string]finding.Outcome{p.handoff(eight, p.post("first", p.whole(eight[0]))): finding.Unwitnessed}
	expect(t, w, want)
}

// Promise: a process that names another function of its provider as its post_send
// is found out by its hits; the place is let go, and said, and whoever uses that
// provider is seen as before.
func TestAPlaceThatIsNoPostSendIsLetGo(t *testing.T) {
	path := targetPath(t)
	w := watch(t, knownPages, verbsPeers, "exe="+path)
	p := proved(t, w, 0)
	bad := startTarget(t, path)
	bad.do("open")
	bad.do("qp 17 99")
	bad.do("forge poll")
	found := func() bool { return strings.Contains(strings.Join(w.problems, " "), "as post_send was none") }
	for end := time.Now().Add(patience); !w.look(found); time.Sleep(10 * time.Millisecond) {
		if bad.do("polls 50"); time.Now().After(end) {
			t.Fatal("it is not found out")
		}
	}
	want := map[string]finding.Outcome{p.good(): finding.Clean, p.handoff(eight, p.post("first", p.whole(eight[0]))): finding.Violated}
	expect(t, w, want)
}

// Promise: a probe that is killed while requests are posted leaves those who post
// as they were.
func TestWhoPostsFeelsNothingOfADeadProbe(t *testing.T) {
	path := targetPath(t)
	w := watch(t, knownPages, "exe="+path)
	p := startTarget(t, path)
	p.do("open")
	p.seen(w, 0)
	must(t, syscall.Kill(w.probe.PID(), syscall.SIGKILL))
	<-w.done
	p.do("flood 1000 16 0")
	p.do("qp 18 98")
	p.do("post 16 1 4096 0 0 0")
	if err := w.probe.Close(); err == nil {
		t.Error("that the probe was killed is not said")
	}
	w.probe = nil
}

// Promise: two containers of one image have the same library under two inodes; what
// they post is seen once.
func TestTwoContainersOfOneImageAreSeenOnce(t *testing.T) {
	image := filepath.Dir(targetPath(t))
	work := t.TempDir()
	var all []*target
	w := watch(t, knownPages, "command="+work)
	for _, name := range []string{"one", "other"} {
		at := filepath.Join(work, name)
		mount := fmt.Sprintf("mkdir -p %[1]s/u %[1]s/w %[1]s/m && mount -t overlay none -o lowerdir=%[2]s,upperdir=%[1]s/u,workdir=%[1]s/w %[1]s/m && exec %[1]s/m/target", at, image)
		p := startTarget(t, "unshare", "-m", "sh", "-c", mount)
		p.do("open")
		p.seen(w, w.posted())
		all = append(all, p)
	}
	for range 4 {
		for _, p := range all {
			w.caughtUp()
			before := w.posted()
			p.do("post 16 1 4096 0 0 0")
			w.caughtUp()
			if n := w.posted() - before; n != 16 {
				t.Errorf("%d requests are seen of 16", n)
			}
		}
	}
	w.close()
}

// caughtUp waits until all that has happened until now was taken in.
func (w *witness) caughtUp() {
	w.t.Helper()
	var now unix.Timespec
	must(w.t, unix.ClockGettime(unix.CLOCK_MONOTONIC, &now))
	w.await("the probe", func() bool { return w.state.Reached() > now.Nano() })
}

func (w *witness) posted() (n uint64) {
	w.look(func() bool { n = w.state.Stats().Posted; return true })
	return n
}
