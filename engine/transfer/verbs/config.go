package verbs

import (
	"errors"

	"github.com/kvwitness/kvwitness/engine/transfer"
)

var (
	// ErrUnavailable is returned where RDMA cannot be used on this machine; the
	// text says what is missing.
	ErrUnavailable = errors.New("RDMA cannot be used here")
	// ErrHandshake is returned where the other side does not speak as this
	// package does: another way of transfer, or another version.
	ErrHandshake = errors.New("the peer does not transfer by verbs")
	// ErrWrite is returned where the NIC reports that a write failed.
	ErrWrite = errors.New("the NIC reports an error")
)

// AnyGID lets the GID be chosen: the first that stands for an IPv4 address, else
// the first that is not empty.
const AnyGID = -1

// DefaultLibrary is what is loaded, as the linker finds it.
const DefaultLibrary = "libibverbs.so.1"

// Config names what to open. Zero fields mean the default.
type Config struct {
	Device  string // empty: the first that there is
	Port    int    // 0: 1
	GID     int    // index in the port's table, or AnyGID
	Library string
}

func (c Config) withDefaults() Config {
	if c.Port == 0 {
		c.Port = 1
	}
	if c.Library == "" {
		c.Library = DefaultLibrary
	}
	return c
}

// Device is an open port of an RDMA device: a way to move bytes. It must be
// closed after all that it served and reached.
type Device interface {
	transfer.Way
	// String names the device, its port and its GID.
	String() string
	Close() error
}
