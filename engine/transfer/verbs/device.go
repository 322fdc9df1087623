//go:build linux && cgo

package verbs

// #include "shim.h"
import "C"

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"unsafe"

	"github.com/kvwitness/kvwitness/engine/transfer"
)

const (
	maxText    = 512 // of what the loader says, bytes
	maxGIDs    = 256 // looked at
	maxDevices = 1024
)

// device is an open port.
type device struct {
	lib  *C.struct_shim_library
	ctx  *C.struct_abi_context
	name string
	port uint8
	gid  netip.Addr
	at   int // index of gid
	lid  uint16
	mtu  uint32 // enum ibv_mtu
	// global: addresses are GIDs, as on Ethernet they always are.
	global bool
}

var _ Device = (*device)(nil)

// Open loads the library and opens a device's port. Errors: ErrUnavailable.
func Open(c Config) (Device, error) {
	c = c.withDefaults()
	lib, err := load(c.Library)
	if err != nil {
		return nil, fmt.Errorf("open an RDMA device: %w", err)
	}
	d := &device{lib: lib, port: uint8(c.Port)}
	if err := d.open(c.Device); err != nil {
		return nil, fmt.Errorf("open an RDMA device: %w", err)
	}
	if err := d.address(c.GID); err != nil {
		_ = d.Close()
		return nil, fmt.Errorf("open RDMA device %s, port %d: %w", d.name, d.port, err)
	}
	return d, nil
}

func (d *device) open(want string) error {
	var n C.int
	list, err := C.shim_devices(d.lib, &n)
	if list == nil || n == 0 {
		return fmt.Errorf("there is none (%v): load the NIC's driver, let a container see /dev/infiniband, or make one in software (rdma link add rxe0 type rxe netdev eth0): %w", err, ErrUnavailable)
	}
	defer C.shim_free_devices(d.lib, list)
	var names []string
	for i := range min(n, maxDevices) {
		name := C.GoString(C.shim_device_name(d.lib, list, i))
		if want != "" && want != name {
			names = append(names, name)
			continue
		}
		d.name = name
		if d.ctx, err = C.shim_open(d.lib, list, i); d.ctx == nil {
			return fmt.Errorf("%s: %v: let this process read and write /dev/infiniband/uverbs*: %w", name, err, ErrUnavailable)
		}
		return nil
	}
	return fmt.Errorf("there is no %s, but %s: %w", want, strings.Join(names, ", "), ErrUnavailable)
}

// address finds out under which address the port is reached.
func (d *device) address(index int) error {
	var a C.struct_abi_port_attr
	if code := C.shim_port(d.lib, d.ctx, C.uint8_t(d.port), &a); code != 0 {
		return fmt.Errorf("%w: there is no such port: %w", failed("ask for its state", code), ErrUnavailable)
	}
	if a.state != C.ABI_PORT_ACTIVE {
		return fmt.Errorf("the port is not active (state %d): connect it, or bring its network interface up: %w", a.state, ErrUnavailable)
	}
	d.lid, d.mtu = uint16(a.lid), uint32(a.active_mtu)
	d.global = a.link_layer == C.ABI_LINK_ETHERNET || index != AnyGID
	if index != AnyGID {
		return d.take(index)
	}
	for i := range min(int(a.gid_tbl_len), maxGIDs) {
		if err := d.take(i); err == nil && d.gid.Is4In6() {
			return nil
		}
	}
	for i := range min(int(a.gid_tbl_len), maxGIDs) {
		if d.take(i) == nil {
			return nil
		}
	}
	return fmt.Errorf("it has no address: give its network interface one: %w", ErrUnavailable)
}

// take makes one entry of the port's table the address.
func (d *device) take(index int) error {
	var gid [16]byte
	if code := C.shim_gid(d.lib, d.ctx, C.uint8_t(d.port), C.int(index), (*C.uint8_t)(unsafe.Pointer(&gid[0]))); code != 0 {
		return fmt.Errorf("%w: %w", failed(fmt.Sprintf("read GID %d", index), code), ErrUnavailable)
	}
	if d.gid, d.at = netip.AddrFrom16(gid), index; d.gid.IsUnspecified() {
		return fmt.Errorf("GID %d is empty: %w", index, ErrUnavailable)
	}
	return nil
}

func (d *device) String() string { return fmt.Sprintf("%s/%d gid %d %s", d.name, d.port, d.at, d.gid) }

// Close closes the device.
func (d *device) Close() error {
	return failed("close RDMA device "+d.name, C.shim_close(d.lib, d.ctx))
}

// Counts implements transfer.Way: nobody hears of a write.
func (d *device) Counts() bool { return false }

// Reach implements transfer.Way.
func (d *device) Reach(session string) transfer.Writer { return newWriter(d, session) }

// Serve implements transfer.Way; applied is not called.
func (d *device) Serve(ctx context.Context, mem *transfer.Memory, host string, _ func(addr, bytes uint64)) (transfer.Receiver, error) {
	return serve(ctx, d, mem, host)
}
