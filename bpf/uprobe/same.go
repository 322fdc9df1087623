//go:build linux && amd64

package uprobe

import (
	"bytes"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// file is one by its inode. Containers of one image have the same file under
// several: the kernel attaches to what lies beneath.
type file struct{ dev, inode uint64 }

// known is the file under whose inode one that is not attached to yet was already:
// every place that is attached to there has a breakpoint here too. offset and role
// are of the function that is asked for. s.mu is held.
func (s *Sites) known(in *Library, offset uint64, role string) (file, bool) {
	places := map[file][]uint64{}
	candidates := map[file]bool{}
	for at, a := range s.attached {
		for _, p := range a.points {
			places[at.file] = append(places[at.file], p.Offset)
		}
		candidates[at.file] = candidates[at.file] || at.offset == offset && at.role == role
	}
	for other, wanted := range candidates {
		if wanted && all(in.file, places[other]) {
			return other, true
		}
	}
	return file{}, false
}

func all(f *os.File, places []uint64) bool {
	for _, at := range places {
		if patched, err := hasBreakpoint(f, at); err != nil || !patched {
			return false
		}
	}
	return true
}

// hasBreakpoint reports whether a place in a file has a breakpoint of a uprobe: the
// kernel puts those into each mapping of which code may run, and not into the file.
func hasBreakpoint(f *os.File, offset uint64) (bool, error) {
	const most = 16 // the longest instruction has 15 bytes
	page := int64(os.Getpagesize())
	begin := int64(offset) &^ (page - 1)
	in := int64(offset) - begin
	mapped, err := unix.Mmap(int(f.Fd()), begin, int(2*page), unix.PROT_READ|unix.PROT_EXEC, unix.MAP_PRIVATE)
	if err != nil {
		return false, fmt.Errorf("map a library: %w", err)
	}
	defer func() { _ = unix.Munmap(mapped) }() // it is mapped
	var true [most]byte
	n, err := f.ReadAt(true[:], int64(offset))
	if n == 0 {
		return false, fmt.Errorf("read a library: %w", err)
	}
	// Only the page of the place itself is sure to be within the file.
	n = min(n, int(page-in))
	return !bytes.Equal(mapped[in:in+int64(n)], true[:n]), nil
}
