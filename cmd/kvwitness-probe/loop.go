//go:build linux && amd64

package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kvwitness/kvwitness/bpf/cuda"
	"github.com/kvwitness/kvwitness/bpf/load"
	"github.com/kvwitness/kvwitness/bpf/pdwire"
	"github.com/kvwitness/kvwitness/bpf/process"
	"github.com/kvwitness/kvwitness/bpf/tcpxfer"
	"github.com/kvwitness/kvwitness/bpf/ucp"
	"github.com/kvwitness/kvwitness/bpf/verbs"
	"github.com/kvwitness/kvwitness/sidecar/attach"
	"github.com/kvwitness/kvwitness/sidecar/probe"
	calls "github.com/kvwitness/kvwitness/sidecar/source/cuda"
)

// How often the probe does what.
const (
	busyPause  = 2 * time.Millisecond // between two looks at the rings
	idlePause  = 5 * time.Millisecond // the same, while nothing comes
	idleAfter  = 200 * time.Millisecond
	countEvery = 100 * time.Millisecond
	scanEvery  = 500 * time.Millisecond
	pruneEvery = 5 * time.Second
	// slack is how long a program in the kernel may take from its look at the
	// clock until its record is in the ring.
	slack = time.Millisecond
)

// loop is the probe at work. It is for one goroutine.
type loop struct {
	out       *probe.Writer
	transfers *load.Probe
	controls  *load.Probe
	starts    *load.Probe
	verbs     *verbs.Probe
	ucx       *ucp.Probe
	driver    *cuda.Probe // nil: it is not asked for
	rings     []ring
	attacher  *attacher
	rdma      rdma
	watch     attach.Watch

	pruned  chan pruning
	pruning bool

	counts  probe.Counts
	counted int64 // when they were read
	told    int64 // T of the last mark
	payload []byte
	failed  error // of writing within a callback
	since   int64 // when the process at hand was started, 0: not known
	// startsLost is how many records of starts were lost so far.
	startsLost uint64

	lastRecord, lastCount, lastScan, lastPrune time.Time
}

// firstNamespace is the inode of the node's first PID namespace.
const firstNamespace = "pid:[4026531836]"

// open loads the programs and tells what is in the way.
func open(s settings, out *os.File) (l *loop, err error) {
	l = &loop{out: probe.NewWriter(out), pruned: make(chan pruning, 1)}
	defer func() {
		if err != nil {
			err = errors.Join(err, l.problem(err.Error()), l.close())
		}
	}()
	_, permitted, err := probe.Capabilities()
	if names := probe.Missing(permitted, false); err != nil || len(names) > 0 {
		return l, errors.Join(err, fmt.Errorf("lacks the rights %s: run it as root, or give it these capabilities", strings.Join(names, ", ")))
	}
	if ns, err := os.Readlink("/proc/self/ns/pid"); err != nil || ns != firstNamespace {
		return l, errors.Join(err, fmt.Errorf("runs in a PID namespace of its own (%s): processes have other numbers in the kernel; share the node's (hostPID: true)", ns))
	}
	if l.transfers, err = tcpxfer.Open(load.Options{}); err != nil {
		return l, err
	}
	if l.controls, err = pdwire.Open(load.Options{Targets: l.transfers.Targets()}); err != nil {
		return l, err
	}
	if l.verbs, err = verbs.Open(verbs.Options{Options: load.Options{Targets: l.transfers.Targets()}, Completions: s.completions}); err != nil {
		return l, err
	}
	if l.ucx, err = ucp.Open(ucp.Options{Options: load.Options{Targets: l.transfers.Targets()}, Completions: s.completions}); err != nil {
		return l, err
	}
	if s.cuda {
		if l.driver, err = cuda.Open(cuda.Options{Options: load.Options{Targets: l.transfers.Targets()}, Deny: s.deny, Copies: s.copies}); err != nil {
			return l, err
		}
	}
	l.listen()
	l.attacher = newAttacher(l.verbs, l.ucx, l.driver, attach.Proc(s.proc))
	l.rdma = rdma{asked: l.attacher.asked, ways: map[way]answered{}, sites: map[uint64]*abuse{}, hinted: map[int]time.Time{}, callers: map[uint32]map[uint64]bool{}}
	libraries := l.attacher.begin()
	l.watch = attach.Watch{
		Proc: attach.Proc(s.proc), Rules: s.rules, Self: os.Getpid(),
		Started: l.started, Ended: l.ended,
	}
	// From here on what is started is watched; what runs already is found now.
	if l.starts, err = process.Open(load.Options{Targets: l.transfers.Targets()}); err != nil {
		return l, err
	}
	if err = l.out.Hello(); err != nil {
		return l, err
	}
	l.complain(libraries)
	l.complain(l.watch.Scan())
	return l, l.failed
}

func (l *loop) close() error {
	var errs []error
	if l.driver != nil {
		errs = append(errs, l.driver.Close())
	}
	if l.verbs != nil {
		errs = append(errs, l.verbs.Close())
	}
	if l.ucx != nil {
		errs = append(errs, l.ucx.Close())
	}
	for _, p := range []*load.Probe{l.starts, l.controls, l.transfers} {
		if p != nil {
			errs = append(errs, p.Close())
		}
	}
	return errors.Join(errs...)
}

func (l *loop) problem(text string) error {
	return errors.Join(l.out.Frame(probe.Problem, []byte(text[:min(len(text), probe.MaxFrame)])), l.out.Flush())
}

func (l *loop) run(ctx context.Context) error {
	attaching := make(chan struct{})
	ctx, stop := context.WithCancel(ctx)
	defer func() { stop(); <-attaching }()
	go func() { defer close(attaching); l.attacher.run(ctx) }()
	for ctx.Err() == nil {
		if err := l.turn(time.Now()); err != nil {
			if ctx.Err() != nil || errors.Is(err, unix.EPIPE) {
				return nil // the sidecar is gone
			}
			return err
		}
		pause := idlePause
		if time.Since(l.lastRecord) < idleAfter {
			pause = busyPause
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
	return nil
}

func monotonic() int64 {
	var ts unix.Timespec
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts) != nil {
		return 0 // the kernel always has this clock
	}
	return ts.Nano()
}

// turn looks at everything once.
func (l *loop) turn(now time.Time) error {
	if err := l.processes(now); err != nil {
		return err
	}
	reached := monotonic() - slack.Nanoseconds()
	if l.pressed() || now.Sub(l.lastCount) >= countEvery {
		if err := l.count(); err != nil {
			return err
		}
		l.lastCount = now
	}
	records := 0
	for _, source := range l.rings {
		err := source.from.Drain(func(b []byte) {
			records++
			if slices.ContainsFunc(source.processes, func(at int) bool { return l.isWatched(b, at) }) && (source.kind != probe.Verbs || !l.isUCXsOwn(b)) {
				l.write(source.kind, b)
				l.note(source.kind, b, now)
			}
		})
		if err = errors.Join(err, l.failed); err != nil {
			return err
		}
	}
	if records > 0 {
		l.lastRecord = now
	}
	l.answers()
	// In each turn: who joins this with other sources waits for it.
	l.told = reached
	l.mark()
	if err := l.prune(now); err != nil {
		return err
	}
	return errors.Join(l.failed, l.out.Flush())
}

// ring is where records of a probe come from.
type ring struct {
	from      *load.Probe
	kind      probe.Kind
	processes []int // where a record says of which processes it is
}

// listen lists the rings.
func (l *loop) listen() {
	l.rings = []ring{{l.verbs.Probe, probe.Verbs, []int{8}}, {l.ucx.Probe, probe.UCX, []int{8}}, {l.controls, probe.Control, []int{32}}, {l.transfers, probe.Transfer, []int{40}}}
	if l.driver != nil {
		l.rings = append(l.rings, ring{l.driver.Probe, probe.CUDA, []int{calls.ProcessAt, calls.OwnerAt}})
	}
}

func (l *loop) write(k probe.Kind, b []byte) {
	if l.failed == nil {
		l.failed = l.out.Frame(k, b)
	}
}

// note looks at a record that was handed on for what it says of verbs and UCX.
func (l *loop) note(k probe.Kind, b []byte, now time.Time) {
	switch k {
	case probe.Verbs:
		l.verbsRecord(b)
	case probe.UCX:
		l.ucxRecord(b)
	case probe.Control:
		l.hint(int(binary.NativeEndian.Uint32(b[32:])), now)
	}
}

func (l *loop) mark() {
	m := probe.Mark{T: l.told, Counted: l.counted, Counts: l.counts}
	l.payload = m.Append(l.payload[:0])
	l.write(probe.Progress, l.payload)
}

// pressed reports whether a ring is so full that it may have lost something.
func (l *loop) pressed() bool {
	for _, r := range l.rings {
		if bytes, size := r.from.Fill(); bytes > size/2 {
			return true
		}
	}
	return false
}

// count reads the counters and tells of a loss before anything that came after.
func (l *loop) count() error {
	t, err := l.transfers.Counters()
	if err != nil {
		return err
	}
	c, err := l.controls.Counters()
	if err != nil {
		return err
	}
	v, err := l.verbs.Counters()
	if err != nil {
		return err
	}
	u, err := l.ucx.Counters()
	if err != nil {
		return err
	}
	before := l.counts
	l.counted = monotonic()
	l.counts = probe.Counts{
		TransferSent: t[tcpxfer.RecordsSent], TransferLost: t[tcpxfer.RecordsLost], TransferFull: t[tcpxfer.ConnectionsLost],
		ControlSent: c[pdwire.RecordsSent], ControlLost: c[pdwire.RecordsLost], ControlFull: c[pdwire.ConnectionsLost],
		ControlCut: c[pdwire.BytesCut], Refused: l.watch.Refused(),
		VerbsSent:   v[verbs.RecordsSent] + u[ucp.RecordsSent],
		VerbsLost:   v[verbs.RecordsLost] + v[verbs.LostBusy] + v[verbs.LostCalls] + u[ucp.RecordsLost] + u[ucp.LostCalls],
		VerbsUntold: v[verbs.LostCalls] + v[verbs.LostObjects] + u[ucp.LostCalls] + u[ucp.LostObjects],
	}
	if l.driver != nil {
		d, err := l.driver.Counters()
		if err != nil {
			return err
		}
		l.counts.CUDASent, l.counts.CUDALost, l.counts.CopiesLost = d[cuda.RecordsSent], d[cuda.RecordsLost]+d[cuda.LostCalls], d[cuda.LostCopies]
	}
	lost := func(c probe.Counts) [6]uint64 {
		return [6]uint64{c.TransferLost, c.TransferFull, c.ControlLost, c.ControlFull, c.VerbsLost, c.CUDALost}
	}
	if lost(before) != lost(l.counts) {
		l.mark()
	}
	return l.failed
}

// isWatched reports whether a record is of a process that is to be watched. One
// of which that was not decided yet began to run before it made a record.
func (l *loop) isWatched(record []byte, at int) bool {
	if len(record) < at+4 {
		return false
	}
	pid := int(binary.NativeEndian.Uint32(record[at:]))
	if _, ok := l.watch.Watched()[pid]; ok {
		return true
	}
	l.complain(l.begun())
	_, ok := l.watch.Watched()[pid]
	return ok
}

// begun decides about the programs that were started.
func (l *loop) begun() error {
	err := l.starts.Drain(func(b []byte) {
		t, pid, ok := process.Started(b)
		if !ok {
			return
		}
		l.since = t
		l.complain(l.watch.Find(pid))
		l.since = 0
		if _, ok := l.watch.Watched()[pid]; !ok {
			_ = l.transfers.Targets().Delete(uint32(pid)) // the kernel put it there
		}
	})
	return err
}

// processes finds those that were started or are gone.
func (l *loop) processes(now time.Time) error {
	if err := l.begun(); err != nil {
		return err
	}
	if now.Sub(l.lastScan) >= scanEvery {
		l.lastScan = now
		l.complain(l.watch.Scan())
		l.complain(l.tidy())
	}
	return l.failed
}

// tidy drops processes from the kernel's list that nobody decided about, because
// the record of their start was lost.
func (l *loop) tidy() error {
	c, err := l.starts.Counters()
	if err != nil || c[process.RecordsLost] == l.startsLost {
		return err
	}
	l.startsLost = c[process.RecordsLost]
	var pids []uint32
	var pid uint32
	var value uint64
	for each := l.transfers.Targets().Iterate(); each.Next(&pid, &value); {
		if _, ok := l.watch.Watched()[int(pid)]; !ok {
			pids = append(pids, pid)
		}
	}
	for _, pid := range pids {
		_ = l.transfers.Targets().Delete(pid)
	}
	return nil
}

func (l *loop) complain(err error) {
	if err != nil && l.failed == nil {
		l.failed = l.problem(err.Error())
	}
}

func (l *loop) started(p attach.Process) error {
	if err := l.transfers.Targets().Put(uint32(p.PID), uint64(1)); err != nil {
		return fmt.Errorf("watch process %d: %w", p.PID, err)
	}
	l.seen(probe.Seen{PID: uint32(p.PID), Rule: p.Rule})
	l.ask(asked{what: watchProcess, pid: p.PID, t: l.since})
	return nil
}

func (l *loop) ended(p attach.Process) {
	// One that is not there was never put.
	_ = l.transfers.Targets().Delete(uint32(p.PID))
	l.forgetWays(p.PID)
	l.seen(probe.Seen{PID: uint32(p.PID), Rule: p.Rule, Ended: true})
}

func (l *loop) seen(s probe.Seen) {
	if s.T = l.since; s.T == 0 {
		s.T = monotonic()
	}
	l.payload = s.Append(l.payload[:0])
	l.write(probe.Process, l.payload)
}
