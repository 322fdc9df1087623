//go:build linux && amd64

package main

import (
	"fmt"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/kvwitness/kvwitness/bpf/verbs"
)

// right is a capability that the probe uses.
type right struct {
	number int
	name   string
	why    string
	kept   bool // after the programs are loaded
	// old: only kernels before 6.6 ask for it; without it they see no RDMA.
	old bool
}

// rights are all that the probe uses; README.md shows the same table.
var rights = []right{
	{unix.CAP_BPF, "CAP_BPF", "load the programs; kernels before 5.19 also ask for it to change the list of processes", true, false},
	{unix.CAP_PERFMON, "CAP_PERFMON", "attach the programs, to libraries that processes load later too, and let them read memory of the processes that are watched", true, false},
	{unix.CAP_SYS_PTRACE, "CAP_SYS_PTRACE", "see which executable a process of another user runs, for the rule exe=, what it has mapped, which devices it has open, and the contexts that it opened before", true, false},
	{unix.CAP_CHECKPOINT_RESTORE, "CAP_CHECKPOINT_RESTORE", "open the library that a process has mapped, whatever its container calls it (/proc/PID/map_files)", true, false},
	{unix.CAP_SYS_ADMIN, "CAP_SYS_ADMIN", "attach to libraries that processes load later, on kernels before 6.6: without it they see no RDMA", true, true},
}

func keptRights() (mask uint64) {
	for _, r := range rights {
		if r.kept && (!r.old || verbs.NeedsAdmin()) {
			mask |= 1 << r.number
		}
	}
	return mask
}

// missing names the rights that the probe needs and does not have.
func missing() (names []string, err error) {
	_, permitted, err := capabilities()
	if err != nil {
		return nil, err
	}
	for _, r := range rights {
		if permitted&(1<<r.number) == 0 && !r.old {
			names = append(names, r.name)
		}
	}
	return names, nil
}

type capData [2]struct{ effective, permitted, inheritable uint32 }

func capabilities() (effective, permitted uint64, err error) {
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var d [2]unix.CapUserData
	if err := unix.Capget(&head, &d[0]); err != nil {
		return 0, 0, fmt.Errorf("read this process's rights: %w", err)
	}
	return uint64(d[0].Effective) | uint64(d[1].Effective)<<32, uint64(d[0].Permitted) | uint64(d[1].Permitted)<<32, nil
}

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
	_, permitted, err := capabilities()
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
