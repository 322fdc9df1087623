//go:build linux && cgo

package verbs

// #cgo LDFLAGS: -ldl
// #include <stdlib.h>
// #include "shim.h"
import "C"

import (
	"fmt"
	"sync"
	"syscall"
	"unsafe"
)

// libraries are those that were loaded, by path: none is loaded twice.
var libraries struct {
	sync.Mutex
	by map[string]*C.struct_shim_library
}

func load(path string) (*C.struct_shim_library, error) {
	libraries.Lock()
	defer libraries.Unlock()
	if l := libraries.by[path]; l != nil {
		return l, nil
	}
	name := C.CString(path)
	defer C.free(unsafe.Pointer(name))
	why := (*C.char)(C.calloc(1, maxText))
	defer C.free(unsafe.Pointer(why))
	l := C.shim_load(name, why, maxText)
	if l == nil {
		return nil, fmt.Errorf("load %s: %s: install it with its providers (Debian: apt-get install libibverbs1 ibverbs-providers): %w",
			path, C.GoString(why), ErrUnavailable)
	}
	if libraries.by == nil {
		libraries.by = map[string]*C.struct_shim_library{}
	}
	libraries.by[path] = l
	return l, nil
}

// failed is the error of a call that returns 0 or an errno.
func failed(what string, code C.int) error {
	if code == 0 {
		return nil
	}
	if code < 0 {
		code = -code
	}
	return fmt.Errorf("%s: %w", what, syscall.Errno(code))
}

// missing is the error of a call that returned nothing; err is its errno.
func missing(what string, err error) error {
	if err == nil {
		err = syscall.EINVAL
	}
	if err == syscall.ENOMEM {
		return fmt.Errorf("%s: %w: the limit of locked memory may be too low (ulimit -l, LimitMEMLOCK=)", what, err)
	}
	return fmt.Errorf("%s: %w", what, err)
}
