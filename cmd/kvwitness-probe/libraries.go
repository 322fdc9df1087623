//go:build linux && amd64

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/kvwitness/kvwitness/bpf/target"
)

// folders are where distributions install libibverbs and UCX, and prefixes where
// Pythons are installed, whose packages carry their own. They are attached to before
// anybody loads them, so that nothing of those who do is missed.
var (
	folders  = []string{"/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/lib64"}
	prefixes = []string{"/usr", "/usr/local"}
)

// Libraries of packages below a prefix, and how many of them are attached to.
const (
	carried    = "/lib/python3*/*-packages/*.libs/lib*.so*"
	maxCarried = 64
)

// library is a file that is attached to before it is loaded.
type library struct {
	path   string
	attach func(path string) (int64, error)
}

// libraries are those of a root folder, as a program there has them that was started by
// such a name.
func (a *attacher) libraries(root, program string) (all []library) {
	for _, folder := range folders {
		all = append(all, library{root + folder + "/libibverbs.so.1", a.probe.AttachLibrary}, library{root + folder + "/libucp.so.0", a.ucx.AttachLibrary})
	}
	if a.driver != nil {
		for _, path := range drivers {
			all = append(all, library{root + path, a.driver.AttachLibrary})
		}
	}
	for _, prefix := range append(environment(program), prefixes...) {
		found, _ := filepath.Glob(root + prefix + carried) // the pattern is right
		for _, name := range found[:min(len(found), maxCarried)] {
			switch {
			case target.IsVerbs(name):
				all = append(all, library{name, a.probe.AttachLibrary})
			case target.IsUCX(name):
				all = append(all, library{name, a.ucx.AttachLibrary})
			}
		}
	}
	return all
}

// environment is the folder of the virtual environment that a program was started in,
// as its name says, if it was by its whole name: that is the process's to choose, and
// may be anything.
func environment(program string) []string {
	if !path.IsAbs(program) || strings.ContainsAny(program, `*?[\`) {
		return nil
	}
	bin := path.Dir(path.Clean(program))
	if path.Base(bin) != "bin" || path.Dir(bin) == "/" {
		return nil
	}
	return []string{path.Dir(bin)}
}

// begin attaches to the libraries of this machine.
func (a *attacher) begin() error {
	var failed error
	for _, l := range a.libraries("", "") {
		if _, err := l.attach(l.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			failed = errors.Join(failed, fmt.Errorf("attach to %s: %w", l.path, err))
		}
	}
	return failed
}

// before attaches to the libraries of a process's own root, which may be a
// container's, before it loads one. Where that fails it is attached to as it has it
// mapped, and what is in the way is said then.
func (a *attacher) before(pid int) {
	var program string
	if p, err := a.proc.Look(pid); err == nil {
		program, _, _ = strings.Cut(p.Command, " ")
	}
	for _, l := range a.libraries(fmt.Sprintf("%s/%d/root", a.proc, pid), program) {
		var stat unix.Stat_t
		if unix.Stat(l.path, &stat) != nil {
			continue
		}
		if at := [2]uint64{stat.Dev, stat.Ino}; !a.tried[at] && len(a.tried) < maxTried {
			a.tried[at] = true
			_, _ = l.attach(l.path)
		}
	}
}
