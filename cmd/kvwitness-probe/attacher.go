//go:build linux && amd64

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kvwitness/kvwitness/bpf/cuda"
	"github.com/kvwitness/kvwitness/bpf/target"
	"github.com/kvwitness/kvwitness/bpf/ucp"
	"github.com/kvwitness/kvwitness/bpf/verbs"
	"github.com/kvwitness/kvwitness/sidecar/attach"
	source "github.com/kvwitness/kvwitness/sidecar/source/verbs"
)

// Bounds of what is attached to.
const (
	maxAsked    = 4096 // requests that wait
	maxContexts = 1024 // of one process, one after the other
	maxFiles    = 1 << 16
	maxTried    = 4096 // libraries
	// firstLook is how long after its start a process is looked at for libibverbs
	// again; each further look comes after twice the time, up to lastLook.
	firstLook = 20 * time.Millisecond
	lastLook  = 2 * time.Second
	// hintPause is how soon a look may be brought forward again by a hint.
	hintPause = 20 * time.Millisecond
)

// asked is what the loop wants to be done.
type asked struct {
	what     task
	pid      int
	t        int64 // ns: of the start, or of the record
	context  source.Context
	extended source.Extended
	site     uint64
}

type task uint8

const (
	watchProcess task = iota
	forgetProcess
	hintProcess // it speaks of handoffs: verbs may follow
	hintUCX     // it uses UCX
	watchUCX
	attachContext
	attachExtended
	refuseSite
	watchDriver // of CUDA
)

// answered is what came of it.
type answered struct {
	asked
	since int64
	err   error
}

// attacher attaches to the verbs, the UCX and the CUDA driver of watched processes, beside the loop: it
// takes the kernel longer than a ring may wait.
type attacher struct {
	probe  *verbs.Probe
	ucx    *ucp.Probe
	driver *cuda.Probe // nil: it is not asked for
	proc   attach.Proc
	asked  chan asked
	told   chan answered
	// scanned are contexts that were found in the memory of processes.
	scanned   chan []source.Context
	scanning  bool
	processes map[int]*user
	tried     map[[2]uint64]bool // libraries by their inode
}

// user is a watched process that may use verbs.
type user struct {
	pid      int
	without  int64 // ns, when it had not mapped libibverbs yet; 0: not known
	next     time.Time
	pause    time.Duration
	verbs    bool // libibverbs is mapped and attached to
	scan     bool // its memory is to be looked through for devices that it opened before
	contexts int
	files    map[int32]bool // of devices whose context is known
	strange  bool           // at the last look a device was open whose context is not known
	problem  string         // as it was told

	ucx        bool // it was told whether its UCX is attached to
	ucxProblem string
	driver     driverUse
}

func newAttacher(p *verbs.Probe, ucx *ucp.Probe, driver *cuda.Probe, proc attach.Proc) *attacher {
	return &attacher{
		probe: p, ucx: ucx, driver: driver, proc: proc, asked: make(chan asked, maxAsked), told: make(chan answered, maxAsked),
		scanned: make(chan []source.Context, 1), processes: map[int]*user{}, tried: map[[2]uint64]bool{},
	}
}

// run works until ctx ends.
func (a *attacher) run(ctx context.Context) {
	tick := time.NewTicker(firstLook)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case q := <-a.asked:
			a.take(ctx, q)
		case found := <-a.scanned:
			a.scanning = false
			for _, c := range found {
				a.take(ctx, asked{what: attachContext, pid: int(c.PID), t: monotonic(), context: c})
			}
		case now := <-tick.C:
			a.looks(ctx, now)
		}
	}
}

func (a *attacher) tell(ctx context.Context, r answered) {
	select {
	case a.told <- r:
	case <-ctx.Done():
	}
}

func (a *attacher) take(ctx context.Context, q asked) {
	u := a.processes[q.pid]
	switch q.what {
	case watchProcess:
		now := time.Now()
		a.processes[q.pid] = &user{pid: q.pid, without: q.t, next: now, pause: firstLook, files: map[int32]bool{}, driver: driverUse{without: q.t}}
		a.before(q.pid)
	case forgetProcess:
		delete(a.processes, q.pid)
	case hintProcess:
		if u != nil && !u.verbs {
			u.next = time.Now()
		}
	case hintUCX:
		if u != nil && !u.ucx {
			u.next = time.Now()
		}
	case watchUCX:
	case attachContext:
		r := answered{asked: q}
		if u != nil {
			u.files[q.context.FD] = true
			u.contexts++
		}
		if u == nil || u.contexts <= maxContexts {
			r.since, r.err = a.probe.AttachContext(q.context)
		} else {
			r.err = fmt.Errorf("it has more than %d contexts", maxContexts)
		}
		a.tell(ctx, r)
	case attachExtended:
		r := answered{asked: q}
		r.since, r.err = a.probe.AttachExtended(q.extended)
		a.tell(ctx, r)
	case watchDriver: // is told, and not asked
	case refuseSite:
		a.tell(ctx, answered{asked: q, err: errors.Join(verbs.ErrAbused, a.probe.Refuse(q.site))})
	}
}

// looks looks at the processes whose turn it is.
func (a *attacher) looks(ctx context.Context, now time.Time) {
	for _, u := range a.processes {
		if u.next.After(now) {
			continue
		}
		u.next = now.Add(u.pause)
		u.pause = min(2*u.pause, lastLook)
		maps, err := target.Mappings(u.pid)
		if err == nil {
			a.lookUCX(ctx, u, maps)
		}
		if why := a.look(u, maps, err); why != u.problem {
			u.problem = why
			r := answered{asked: asked{what: watchProcess, pid: u.pid, t: monotonic()}}
			if why != "" {
				r.err = errors.New(why)
			}
			a.tell(ctx, r)
		}
		if a.driver != nil {
			if r, news := a.lookDriver(u); news {
				a.tell(ctx, r)
			}
		}
	}
}

// look attaches to what a process has mapped, and compares the devices that it has
// open with the contexts that are known. It returns why not all can be seen. err is of
// reading what it has mapped.
func (a *attacher) look(u *user, maps []target.Mapping, err error) string {
	now := monotonic()
	var since int64
	if err == nil {
		since, err = a.probe.Watch(u.pid, maps)
	}
	switch {
	case errors.Is(err, verbs.ErrNoVerbs):
		u.without = now
		return ""
	case hasEnded(err):
		return ""
	case err != nil:
		return err.Error()
	}
	if !u.verbs {
		u.verbs, u.pause = true, lastLook
		u.scan = u.without == 0 || since > u.without
	}
	if u.scan && !a.scanning {
		u.scan, a.scanning = false, true
		go func() {
			// What it does not find shows as a device without a context.
			found, _ := verbs.FindContexts(u.pid)
			a.scanned <- found
		}()
	}
	strange := a.devices(u)
	before := u.strange
	u.strange = strange != ""
	if strange == "" || !before || a.scanning {
		return u.problemIf(strange != "")
	}
	return "it opened " + strange + " before the witness was there, and its context was not found: let it start anew"
}

// hasEnded reports whether an error is of a process that is no more.
func hasEnded(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) }

// problemIf keeps what was told as long as it may still hold.
func (u *user) problemIf(still bool) string {
	if still {
		return u.problem
	}
	return ""
}

// devices names a device that a process has open and whose context is not known.
func (a *attacher) devices(u *user) string {
	dir, err := os.Open(fmt.Sprintf("%s/%d/fd", a.proc, u.pid))
	if err != nil {
		return ""
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(maxFiles) // it may end meanwhile
	for _, name := range names {
		to, err := os.Readlink(dir.Name() + "/" + name)
		if err != nil || !strings.HasPrefix(to, "/dev/infiniband/uverbs") {
			continue
		}
		var fd int32
		if _, err := fmt.Sscan(name, &fd); err == nil && !u.files[fd] {
			return strings.TrimPrefix(to, "/dev/infiniband/")
		}
	}
	return ""
}
