//go:build !linux || !cgo

package verbs

import "fmt"

// Open says that there is no way to call a C library.
func Open(Config) (Device, error) {
	return nil, fmt.Errorf("open an RDMA device: this command was built without cgo, or not for Linux: build it with CGO_ENABLED=1: %w", ErrUnavailable)
}
