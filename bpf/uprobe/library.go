//go:build linux && amd64

package uprobe

import (
	"errors"
	"fmt"
	"os"

	"github.com/kvwitness/kvwitness/bpf/target"
)

// ErrName says that a file is not called as it must be.
var ErrName = errors.New("the file is none of those that are attached to")

// Library is an open file: what is looked at and what is attached to is the same,
// whatever a process maps meanwhile.
type Library struct {
	Object *target.Object
	file   *os.File
}

// OpenLibrary opens a file; want says whether a file of such a name may be attached
// to, nil: any. The caller closes it.
func OpenLibrary(name string, want func(string) bool) (*Library, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("open the library: %w", err)
	}
	l := &Library{file: file}
	itself, err := os.Readlink(l.path())
	if err == nil && want != nil && !want(itself) {
		err = fmt.Errorf("%w: it is %s", ErrName, target.FileName(itself))
	}
	if err == nil {
		l.Object, err = target.Open(file)
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return l, nil
}

// Close closes the file; what is attached to it stays.
func (l *Library) Close() error { return l.file.Close() }

func (l *Library) path() string { return fmt.Sprintf("/proc/self/fd/%d", l.file.Fd()) }
