//go:build linux && amd64

package uprobe

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/features"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/kvwitness/kvwitness/bpf/load"
	"github.com/kvwitness/kvwitness/bpf/target"
)

// Limits of Sites.
const (
	MaxObjects   = 256 // files attached to
	MaxFunctions = 20  // attached to in one file
	maxSites     = MaxObjects * MaxFunctions
)

// Errors that callers tell apart.
var (
	// ErrTooMany says that a limit of the Sites is reached.
	ErrTooMany = errors.New("too many")
	// ErrRefused says that a place was refused before.
	ErrRefused = errors.New("the place was refused before")
)

// Function is one that a library exports, and the programs on its beginning and its
// return; "": none there.
type Function struct {
	Name, Version string // see [target.Object.Symbol]
	Needed        bool   // without it nothing is seen
	Entry, Exit   string
}

// Sites are the places that the programs of a probe are attached to. Its methods
// are safe for concurrent use.
type Sites struct {
	probe      *load.Probe
	perfEvents bool

	mu       sync.Mutex
	attached map[site]*attachment
	refused  map[site]bool // detached from for good
	same     map[file]file // files that are another's under an inode of their own
	sites    uint64        // numbers given to attachments
	// libraries that are attached to, by how /proc/PID/maps calls them.
	libraries map[mapping]int64
	closed    bool
}

// mapping is a file as /proc/PID/maps names it.
type mapping struct {
	dev   string
	inode uint64
}

// site is a place to attach to: a function of a file, whoever has it mapped.
type site struct {
	file   file
	offset uint64
	role   string
}

type attachment struct {
	id     uint64
	since  int64 // ns, CLOCK_MONOTONIC
	points []Point
	links  []link.Link
}

// Point is where a function begins in a file, and the cookie that the programs see
// there.
type Point struct{ Offset, Cookie uint64 }

// NeedsAdmin reports whether the kernel asks for CAP_SYS_ADMIN to attach, as it does
// before Linux 6.6.
func NeedsAdmin() bool { return features.HaveBPFLinkUprobeMulti() != nil }

// Open loads a probe whose programs are attached by the Sites that it returns.
// perfEvents attaches them as before Linux 6.6, which is done there in any case.
func Open(spec *ebpf.CollectionSpec, perfEvents bool, o load.Options) (*load.Probe, *Sites, error) {
	s := &Sites{
		perfEvents: perfEvents || NeedsAdmin(), attached: map[site]*attachment{}, refused: map[site]bool{}, same: map[file]file{},
		libraries: map[mapping]int64{},
	}
	if !s.perfEvents {
		for _, program := range spec.Programs {
			program.AttachType = ebpf.AttachTraceUprobeMulti
		}
	}
	var err error
	if s.probe, err = load.Open(spec, load.Program{}, o); err != nil {
		return nil, nil, err
	}
	return s.probe, s, nil
}

// Close detaches from everything and takes the probe out of the kernel.
func (s *Sites) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	var errs []error
	for _, a := range s.attached {
		errs = append(errs, a.close())
	}
	return errors.Join(append(errs, s.probe.Close())...)
}

func (a *attachment) close() error {
	var errs []error
	for _, l := range a.links {
		errs = append(errs, l.Close())
	}
	return errors.Join(errs...)
}

// Exports attaches to those of some functions that a library exports, and returns
// since when all of them are (ns, CLOCK_MONOTONIC).
func (s *Sites) Exports(l *Library, all []Function) (since int64, err error) {
	for _, f := range all {
		offset, err := l.Object.Symbol(f.Name, f.Version)
		if err != nil {
			if f.Needed {
				return since, err
			}
			continue
		}
		if !l.Object.Starts(offset) {
			return since, fmt.Errorf("%s: %w", f.Name, target.ErrNotAFunction)
		}
		now, err := s.Attach(l, offset, f.Name, f.Entry, f.Exit)
		if err != nil {
			return since, err
		}
		since = max(since, now)
	}
	return since, nil
}

// Attach attaches programs to a function of a file, once, and returns since when they
// are. The cookie is the place's number; see Refuse.
func (s *Sites) Attach(in *Library, offset uint64, role string, entry, exit string) (since int64, err error) {
	return s.AttachAll(in, role, entry, exit, []Point{{Offset: offset}})
}

// AttachAll attaches the same programs to several functions of a file at once, once:
// the first of them stands for all. From Linux 6.6 on that is one link for each
// program. A function whose cookie is 0 gets the place's number.
func (s *Sites) AttachAll(in *Library, role string, entry, exit string, points []Point) (since int64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var stat unix.Stat_t
	if err := unix.Fstat(int(in.file.Fd()), &stat); err != nil {
		return 0, fmt.Errorf("look at the file: %w", err)
	}
	offset := points[0].Offset
	at := site{file{stat.Dev, stat.Ino}, offset, role}
	if other, same := s.same[at.file]; same {
		at.file = other
	} else if other, same = s.known(in, offset, role); same && other != at.file && len(s.same) < maxSites {
		s.same[at.file], at.file = other, other
	}
	switch {
	case s.closed:
		return 0, os.ErrClosed
	case s.refused[at]:
		return 0, ErrRefused
	case s.attached[at] != nil:
		return s.attached[at].since, nil
	case len(s.attached)+len(s.refused) >= maxSites:
		return 0, fmt.Errorf("attach to more than %d functions: %w", maxSites, ErrTooMany)
	}
	a, err := s.hang(in, role, entry, exit, points)
	if err != nil {
		return 0, err
	}
	s.attached[at] = a
	return a.since, nil
}

// hang attaches the programs of a place: that of the beginnings first, else calls that
// begin in between would end without having begun.
func (s *Sites) hang(in *Library, role, entry, exit string, points []Point) (*attachment, error) {
	file, err := link.OpenExecutable(in.path())
	if err != nil {
		return nil, fmt.Errorf("open: %w", err)
	}
	s.sites++
	a := &attachment{id: s.sites, points: slices.Clone(points)}
	for i := range a.points {
		if a.points[i].Cookie == 0 {
			a.points[i].Cookie = a.id
		}
	}
	for i, program := range [...]string{entry, exit} {
		if program == "" {
			continue
		}
		if err := s.attach(a, file, role, program, i == 1); err != nil {
			return nil, errors.Join(fmt.Errorf("attach to %s at %#x: %w", role, points[0].Offset, err), a.close())
		}
	}
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return nil, errors.Join(fmt.Errorf("read the clock: %w", err), a.close())
	}
	a.since = now.Nano()
	return a, nil
}

// attach attaches one program, to the beginnings of functions or to their returns.
func (s *Sites) attach(a *attachment, file *link.Executable, role, program string, atReturn bool) error {
	p := s.probe.Program(program)
	if !s.perfEvents {
		where := &link.UprobeMultiOptions{}
		for _, at := range a.points {
			where.Addresses, where.Cookies = append(where.Addresses, at.Offset), append(where.Cookies, at.Cookie)
		}
		attach := file.UprobeMulti
		if atReturn {
			attach = file.UretprobeMulti
		}
		return a.keep(attach(nil, p, where))
	}
	attach := file.Uprobe
	if atReturn {
		attach = file.Uretprobe
	}
	for _, at := range a.points {
		if err := a.keep(attach(role, p, &link.UprobeOptions{Address: at.Offset, Cookie: at.Cookie})); err != nil {
			return err
		}
	}
	return nil
}

func (a *attachment) keep(l link.Link, err error) error {
	if err == nil {
		a.links = append(a.links, l)
	}
	return err
}

// Refuse detaches from a place, named by the cookie that its programs see, and lets
// nobody attach there again: a process may name any function as its own.
func (s *Sites) Refuse(id uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for at, a := range s.attached {
		if a.id == id {
			delete(s.attached, at)
			s.refused[at] = true
			return a.close()
		}
	}
	return nil
}

// Each attaches to those files of a process's mappings that want takes, with attach
// for each that is not known yet, and returns since when all of them are, and how
// many there are.
func (s *Sites) Each(pid int, all []target.Mapping, want func(target.Mapping) bool, attach func(name string) (int64, error)) (since int64, n int, err error) {
	seen := map[mapping]bool{}
	for _, m := range all {
		is := mapping{m.Dev, m.Inode}
		if !m.Executable || m.Inode == 0 || seen[is] {
			continue
		}
		seen[is] = true
		if !want(m) {
			continue
		}
		n++
		now, known := s.mapped(is)
		if !known {
			if now, err = attach(m.File(pid)); err != nil {
				return since, n, fmt.Errorf("process %d, %s: %w", pid, m.Path, err)
			}
			s.note(is, now)
		}
		since = max(since, now)
	}
	return since, n, nil
}

// mapped is since when a library is attached to that some process had mapped: to
// read the file again for each that has would cost more than all the rest.
func (s *Sites) mapped(m mapping) (since int64, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	since, known = s.libraries[m]
	return since, known
}

func (s *Sites) note(m mapping, since int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.libraries) >= MaxObjects {
		clear(s.libraries)
	}
	s.libraries[m] = since
}
