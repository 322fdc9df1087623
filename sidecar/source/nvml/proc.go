package nvml

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// maxStatus is how much is read of one file of a process.
const maxStatus = 16 << 10

// errNotHost is returned where /proc does not show the node's processes.
var errNotHost = errors.New("the node's processes cannot be seen here: share its process namespace (hostPID), or mount its /proc and name it with proc")

// process is what /proc says of one.
type process struct {
	pid    int // as /proc has it: the driver's number too, where /proc is the node's
	parent int
	start  uint64 // clock ticks since boot; with pid it names the process for good
	inner  int64  // its number in its own namespace
	kernel bool
	name   string // 15 bytes of it, which it may choose
	exe    string // empty: it may not be read
}

// procs reads a mounted /proc, each process once.
type procs struct {
	root  string
	known map[int]*process // nil: it is not there
}

// look is a process; nil: it is not there, or not to be read.
func (r *procs) look(pid int) *process {
	if p, asked := r.known[pid]; asked {
		return p
	}
	p, err := r.read(pid)
	if err != nil {
		p = nil // it has ended meanwhile
	}
	r.known[pid] = p
	return p
}

func (r *procs) read(pid int) (*process, error) {
	p := &process{pid: pid, inner: int64(pid)}
	dir := filepath.Join(r.root, strconv.Itoa(pid))
	status, err := readStart(filepath.Join(dir, "status"))
	if err != nil {
		return nil, err
	}
	for line := range bytes.Lines(status) {
		key, value, _ := strings.Cut(string(line), ":")
		switch value = strings.TrimSpace(value); key {
		case "Name":
			p.name = value
		case "NSpid":
			numbers := strings.Fields(value)
			if p.inner, err = strconv.ParseInt(numbers[max(0, len(numbers)-1)], 10, 64); len(numbers) == 0 || err != nil {
				return nil, fmt.Errorf("look at a process: its number is %.20q", value)
			}
		}
	}
	if err := p.stat(filepath.Join(dir, "stat")); err != nil {
		return nil, err
	}
	if exe, err := os.Readlink(filepath.Join(dir, "exe")); err == nil {
		p.exe = strings.TrimSuffix(exe, " (deleted)")
	}
	return p, nil
}

// Where stat has what, counted after the name, which may hold anything.
const parentField, flagsField, startField, kernelThread = 1, 6, 19, 0x00200000

func (p *process) stat(name string) error {
	b, err := readStart(name)
	if err != nil {
		return err
	}
	fields := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	if len(fields) <= startField {
		return fmt.Errorf("look at a process: %s has %d fields", name, len(fields))
	}
	flags, flagsErr := strconv.ParseUint(fields[flagsField], 10, 64)
	var parentErr, startErr error
	p.parent, parentErr = strconv.Atoi(fields[parentField])
	p.start, startErr = strconv.ParseUint(fields[startField], 10, 64)
	p.kernel = flags&kernelThread != 0
	return errors.Join(flagsErr, parentErr, startErr)
}

func readStart(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("look at a process: %w", err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxStatus))
	if err != nil {
		return nil, fmt.Errorf("look at a process: %w", err)
	}
	return b, nil
}

// host reports whether this /proc shows the node's own processes, whose numbers the
// driver tells: only there is process 2 the kernel's thread that starts the others.
func (r *procs) host() bool {
	p := r.look(2)
	return p != nil && p.kernel && p.name == "kthreadd"
}

// all reads every process.
func (r *procs) all() ([]*process, error) {
	d, err := os.Open(r.root)
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	defer d.Close()
	names, err := d.Readdirnames(-1)
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	var all []*process
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			if p := r.look(pid); p != nil {
				all = append(all, p)
			}
		}
	}
	return all, nil
}

// line is a process and those that started it, up to the node's first.
func (r *procs) line(p *process) (line []*process) {
	const deepest = 64
	for p != nil && p.pid > 1 && len(line) < deepest {
		line = append(line, p)
		p = r.look(p.parent)
	}
	return line
}

// same reports whether two run the same program, as far as that can be seen.
func (p *process) same(o *process) bool {
	if p.exe != "" && o.exe != "" {
		return p.exe == o.exe
	}
	return p.exe == o.exe && p.name == o.name
}

// launcher is the process that started p's family: the first of its line, while they
// run the same program.
func (r *procs) launcher(p *process) *process {
	line := r.line(p)
	for i := 1; i < len(line) && line[i].same(p); i++ {
		p = line[i]
	}
	return p
}
