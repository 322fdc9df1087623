//go:build linux && amd64

package ucp

import (
	"os"
	"sync"

	"github.com/kvwitness/kvwitness/bpf/target"
)

// maxKnown bounds the files of which it is known whether they are UCX.
const maxKnown = 1 << 14

// known is which files are UCX: to ask each that a process has mapped is cheap once.
type known struct {
	mu    sync.Mutex
	files map[file]bool
}

// file is one as /proc/PID/maps names it.
type file struct {
	dev   string
	inode uint64
}

// isUCX reports whether a mapped file exports what UCX does. One that cannot be read
// is asked again.
func (k *known) isUCX(pid int, m target.Mapping) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	is := file{m.Dev, m.Inode}
	if ucx, asked := k.files[is]; asked {
		return ucx
	}
	f, err := os.Open(m.File(pid))
	if err != nil {
		return target.IsUCX(m.Path) // what attaches to it says why it cannot be
	}
	defer f.Close()
	ucx, err := target.Exports(f, theSymbol)
	if err != nil {
		ucx = target.IsUCX(m.Path)
	}
	if len(k.files) >= maxKnown || k.files == nil {
		k.files = map[file]bool{}
	}
	k.files[is] = ucx
	return ucx
}
