package logs

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// MaxPastEntries is how many of a unit's last entries are read that were there
	// before it was followed.
	MaxPastEntries = 10_000
	// maxUnit is the longest name of a unit that systemd takes.
	maxUnit = 255
	// journalFirst is how soon a journalctl that ended is started again; it doubles up
	// to journalMax, until one has read something.
	journalFirst = 200 * time.Millisecond
	journalMax   = 30 * time.Second
	// journalStop is how long it may take to end once it is asked to.
	journalStop = 2 * time.Second
)

// journalSpec is how a journal is told from a file.
const journalSpec = "journal:"

// Unit is the unit of a log that is given as journal:UNIT. journal is false for the name
// of a file; a unit's name that is none is an error.
func Unit(spec string) (unit string, journal bool, err error) {
	unit, journal = strings.CutPrefix(spec, journalSpec)
	if !journal {
		return "", false, nil
	}
	if unit == "" || len(unit) > maxUnit || strings.ContainsFunc(unit, notOfUnit) {
		return "", true, fmt.Errorf("%q names no systemd unit: letters, digits and any of :_.\\@- in at most %d characters, such as journal:vllm.service", spec, maxUnit)
	}
	return unit, true, nil
}

// notOfUnit keeps out what journalctl would take for a pattern.
func notOfUnit(r rune) bool {
	return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune(`:_.\@-`, r))
}

// Journal follows what systemd's journal has of a unit. Past are its last entries of
// this boot; each invocation of the unit is another run.
type Journal struct {
	Unit    string
	Program string // journalctl, or what stands in for it; empty: it is looked up
	Log     *slog.Logger
	Sink

	began      int64  // when the first child was started, monotonic, in µs
	cursor     string // of the last entry that was read
	invocation string

	mu   sync.Mutex
	said string // the last complaint
}

// Run follows until ctx ends. A journalctl that ends is started again.
func (j *Journal) Run(ctx context.Context) {
	wait := journalFirst
	j.began = monotonic()
	for ctx.Err() == nil {
		read, err := j.follow(ctx)
		if read {
			wait = journalFirst
		}
		if ctx.Err() == nil && err != nil {
			j.complain(err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
		wait = min(2*wait, journalMax)
	}
}

// monotonic is the clock that journald stamps entries with, in µs.
func monotonic() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		return 0 // no kernel lacks it
	}
	return ts.Nano() / 1e3
}

// complain says once what went wrong: journalctl's own words tell which right it lacks.
func (j *Journal) complain(err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err.Error() == j.said {
		return
	}
	j.said = err.Error()
	j.Log.Warn("the journal of an engine cannot be followed; journalctl must be installed, and this process's user be in the group systemd-journal",
		"unit", j.Unit, "error", err)
}

// args are journalctl's. It goes on behind what was read before.
func (j *Journal) args() []string {
	args := []string{
		"--follow", "--boot", "--all", "--no-pager", "--output=json",
		"--output-fields=MESSAGE,_SYSTEMD_INVOCATION_ID,N_DROPPED", "--unit=" + j.Unit,
	}
	if j.cursor == "" {
		return append(args, "--lines="+strconv.Itoa(MaxPastEntries))
	}
	return append(args, "--no-tail", "--after-cursor="+j.cursor)
}

// follow reads what one child says, and reports whether it read an entry. An error is
// how the child ended, if it did not say so itself. A child whose reader is gone ends by itself: journalctl watches its output.
func (j *Journal) follow(ctx context.Context) (read bool, err error) {
	program := j.Program
	if program == "" {
		program = "journalctl"
	}
	cmd := exec.CommandContext(ctx, program, j.args()...)
	cmd.Env = []string{"LC_ALL=C", "PATH=" + os.Getenv("PATH")}
	complaint := &beginning{told: j.complain}
	cmd.Stderr = complaint
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = journalStop
	out, err := cmd.StdoutPipe()
	if err != nil {
		return false, fmt.Errorf("start %s: %w", program, err)
	}
	if err := cmd.Start(); err != nil {
		return false, fmt.Errorf("start %s: %w", program, err)
	}
	stop := context.AfterFunc(ctx, func() { _ = out.Close() }) // whatever else has it open
	defer stop()
	in := bufio.NewReaderSize(out, MaxLine)
	for {
		line, err := nextEntry(in)
		if errors.Is(err, errTooLong) {
			j.Lost(1)
			continue
		}
		if err != nil {
			break
		}
		read = j.take(line) || read
	}
	err = cmd.Wait()
	switch {
	case complaint.done:
		return read, nil
	case err != nil:
		return read, fmt.Errorf("%s ended: %w", program, err)
	}
	return read, fmt.Errorf("%s ended", program)
}

// take hands on what an entry says, and reports whether it could be read.
func (j *Journal) take(line []byte) bool {
	e, err := parseEntry(line)
	if err != nil {
		j.Lost(1)
		return false
	}
	if e.cursor != "" {
		j.cursor = e.cursor
	}
	if e.invocation != "" && e.invocation != j.invocation {
		if j.invocation != "" {
			j.Forget()
		}
		j.invocation = e.invocation
	}
	if e.dropped > 0 {
		j.Lost(e.dropped)
	}
	each := j.Line
	if e.at < j.began {
		each = j.Past
	}
	for text := range strings.SplitSeq(e.message, "\n") {
		if len(text) > MaxLine {
			j.Lost(1)
			continue
		}
		each(text)
	}
	return true
}

// maxComplaint is how much is kept of what journalctl complains of.
const maxComplaint = 512

// beginning hands on the first line that is written to it.
type beginning struct {
	kept []byte
	told func(error)
	done bool // read it once the writer has ended
}

func (b *beginning) Write(p []byte) (int, error) {
	if !b.done {
		b.kept = append(b.kept, p[:min(len(p), maxComplaint-len(b.kept))]...)
		line, _, whole := strings.Cut(string(b.kept), "\n")
		if whole || len(b.kept) == maxComplaint {
			b.done = true
			b.told(errors.New("journalctl: " + line))
		}
	}
	return len(p), nil
}
