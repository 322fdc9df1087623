package attach

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// maxRead is how much is read of one file of a process.
const maxRead = 16 << 10

// Process is what /proc says of one.
type Process struct {
	PID   int
	Start uint64 // when it was started, in clock ticks since boot
	Exe   string // path in its own mount namespace; "" where it may not be read
	// Command is its arguments, joined by spaces.
	Command string
	CGroup  string // path of its control group, that of the first hierarchy
	Rule    string // that it matched
}

// Proc is a mounted /proc.
type Proc string

// Look reads one process.
func (root Proc) Look(pid int) (p Process, err error) {
	p.PID = pid
	dir := filepath.Join(string(root), strconv.Itoa(pid))
	if p.Start, err = root.start(pid); err != nil {
		return p, err
	}
	command, err := readSome(filepath.Join(dir, "cmdline"))
	if err != nil {
		return p, err
	}
	p.Command = string(bytes.TrimRight(bytes.ReplaceAll(command, []byte{0}, []byte{' '}), " "))
	if exe, err := os.Readlink(filepath.Join(dir, "exe")); err == nil {
		p.Exe = strings.TrimSuffix(exe, " (deleted)")
	}
	groups, err := readSome(filepath.Join(dir, "cgroup"))
	if err != nil {
		return p, err
	}
	first, _, _ := strings.Cut(string(groups), "\n")
	if parts := strings.SplitN(first, ":", 3); len(parts) == 3 {
		p.CGroup = parts[2]
	}
	return p, nil
}

func readSome(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("look at a process: %w", err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxRead))
	if err != nil {
		return nil, fmt.Errorf("look at a process: %w", err)
	}
	return b, nil
}

// startField is where stat says when the process was started, counted after the
// name, which may hold anything.
const startField = 19

func (root Proc) start(pid int) (uint64, error) {
	name := filepath.Join(string(root), strconv.Itoa(pid), "stat")
	b, err := readSome(name)
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	if len(fields) <= startField {
		return 0, fmt.Errorf("look at a process: %s has %d fields", name, len(fields))
	}
	return strconv.ParseUint(fields[startField], 10, 64)
}

// list gives the numbers of all processes.
func (root Proc) list() ([]int, error) {
	d, err := os.Open(string(root))
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	defer d.Close()
	names, err := d.Readdirnames(-1)
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	pids := make([]int, 0, len(names))
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

// Sockets adds the inodes of all TCP sockets in the network namespace of a
// process.
func (root Proc) Sockets(pid int, into map[uint64]bool) error {
	const inodeField = 9
	for _, table := range [...]string{"tcp", "tcp6"} {
		b, err := os.ReadFile(filepath.Join(string(root), strconv.Itoa(pid), "net", table))
		if os.IsNotExist(err) {
			continue
		}
		if err != nil {
			return fmt.Errorf("list sockets: %w", err)
		}
		for line := range bytes.Lines(b) {
			fields := bytes.Fields(line)
			if len(fields) <= inodeField {
				continue
			}
			if inode, err := strconv.ParseUint(string(fields[inodeField]), 10, 64); err == nil && inode != 0 {
				into[inode] = true
			}
		}
	}
	return nil
}
