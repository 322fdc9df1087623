//go:build linux && amd64

package main

import (
	"fmt"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/kvwitness/kvwitness/bpf/uprobe"
	"github.com/kvwitness/kvwitness/sidecar/probe"
)

func keptRights() (mask uint64) {
	for _, r := range probe.Rights {
		if r.Kept && (!r.Old || uprobe.NeedsAdmin()) {
			mask |= 1 << r.Number
		}
	}
	return mask
}

type capData [2]struct{ effective, permitted, inheritable uint32 }

// lastCapability bounds the numbers of capabilities; the kernel refuses those
// that it does not know.
const lastCapability = 63

// drop gives up all rights but those of the mask that this process has, for all
// its threads and for ever: also what a file that it executes would give it.
func drop(keep uint64) error {
	for n := range uintptr(lastCapability + 1) {
		// Without CAP_SETPCAP the bounding set stays; NO_NEW_PRIVS makes it void.
		if _, _, errno := syscall.AllThreadsSyscall(unix.SYS_PRCTL, unix.PR_CAPBSET_DROP, n, 0); errno == unix.EINVAL || errno == unix.EPERM {
			break
		} else if errno != 0 {
			return fmt.Errorf("drop rights: bounding set: %w", errno)
		}
	}
	if _, _, errno := syscall.AllThreadsSyscall6(unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0, 0); errno != 0 {
		return fmt.Errorf("drop rights: no new privileges: %w", errno)
	}
	_, permitted, err := probe.Capabilities()
	if err != nil {
		return err
	}
	keep &= permitted
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var d capData
	for i := range d {
		d[i].effective = uint32(keep >> (32 * i))
		d[i].permitted = d[i].effective
	}
	_, _, errno := syscall.AllThreadsSyscall(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&head)), uintptr(unsafe.Pointer(&d)), 0)
	runtime.KeepAlive(&head)
	runtime.KeepAlive(&d)
	if errno != 0 {
		return fmt.Errorf("drop rights: %w", errno)
	}
	return nil
}
