package probe

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Right is a capability that the probe uses.
type Right struct {
	Number int
	Name   string
	Why    string
	Kept   bool // after the programs are loaded
	// Old: only kernels before 6.6 ask for it; without it they see no RDMA.
	Old bool
}

// Rights are all that the probe uses; its README shows the same table.
var Rights = []Right{
	{unix.CAP_BPF, "CAP_BPF", "load the programs; kernels before 5.19 also ask for it to change the list of processes", true, false},
	{unix.CAP_PERFMON, "CAP_PERFMON", "attach the programs, to libraries that processes load later too, and let them read memory of the processes that are watched", true, false},
	{unix.CAP_SYS_PTRACE, "CAP_SYS_PTRACE", "see which executable a process of another user runs, for the rule exe=, what it has mapped, which devices it has open, and the contexts that it opened before", true, false},
	{unix.CAP_CHECKPOINT_RESTORE, "CAP_CHECKPOINT_RESTORE", "open the library that a process has mapped, whatever its container calls it (/proc/PID/map_files)", true, false},
	{unix.CAP_SYS_ADMIN, "CAP_SYS_ADMIN", "attach to libraries that processes load later, on kernels before 6.6: without it they see no RDMA", true, true},
}

// Capabilities are those of this process, as masks.
func Capabilities() (effective, permitted uint64, err error) {
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var d [2]unix.CapUserData
	if err := unix.Capget(&head, &d[0]); err != nil {
		return 0, 0, fmt.Errorf("read this process's rights: %w", err)
	}
	return uint64(d[0].Effective) | uint64(d[1].Effective)<<32, uint64(d[0].Permitted) | uint64(d[1].Permitted)<<32, nil
}

// Missing names the rights that the probe needs and a mask lacks. old: the kernel
// asks for those of before 6.6 too.
func Missing(permitted uint64, old bool) (names []string) {
	for _, r := range Rights {
		if permitted&(1<<r.Number) == 0 && (old || !r.Old) {
			names = append(names, r.Name)
		}
	}
	return names
}
