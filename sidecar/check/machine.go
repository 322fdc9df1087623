package check

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/kvwitness/kvwitness/sidecar/probe"
)

// Machine is what is looked at.
type Machine struct {
	Root      string // where its files are; "/" unless a test has others
	Release   string // of the kernel, as uname says it
	Arch      string // as Go calls it
	Permitted uint64 // this process's capabilities
	Memlock   uint64 // bytes that this process may lock
}

// ThisMachine is the one that this runs on.
func ThisMachine() (m Machine, err error) {
	m = Machine{Root: "/", Arch: runtime.GOARCH}
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return m, fmt.Errorf("ask for the kernel's release: %w", err)
	}
	m.Release = unix.ByteSliceToString(name.Release[:])
	if _, m.Permitted, err = probe.Capabilities(); err != nil {
		return m, err
	}
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_MEMLOCK, &limit); err != nil {
		return m, fmt.Errorf("ask for the limit of locked memory: %w", err)
	}
	m.Memlock = limit.Cur
	return m, nil
}

// version is the kernel's, 0 where it cannot be read.
func (m *Machine) version() (major, minor int) {
	if n, _ := fmt.Sscanf(m.Release, "%d.%d", &major, &minor); n != 2 {
		return 0, 0
	}
	return major, minor
}

func (m *Machine) since(major, minor int) bool {
	a, b := m.version()
	return a > major || a == major && b >= minor
}

func (m *Machine) file(name string) string { return filepath.Join(m.Root, name) }

// read reads a small file of the kernel.
func (m *Machine) read(name string) (string, error) {
	b, err := os.ReadFile(m.file(name))
	return strings.TrimSpace(string(b)), err
}

// Kernel are the needs of the machine and of this process's rights.
func (m *Machine) Kernel() []Need {
	return []Need{
		m.kernel(), m.btf(), m.lockdown(), m.uprobes(), m.rights(), m.paranoid(), m.namespace(), m.memlock(), m.gpu(),
	}
}

func (m *Machine) kernel() Need {
	const name, remedy = "kernel", "run on Linux 5.15 or later, on x86-64: older ones, and other processors, are followed through their own events only"
	switch {
	case m.Arch != "amd64":
		return unmet(name, remedy, "the processor is %s", m.Arch)
	case !m.since(5, 15):
		return unmet(name, remedy, "Linux %s", m.Release)
	}
	return met(name, "Linux %s", m.Release)
}

func (m *Machine) btf() Need {
	const at = "sys/kernel/btf/vmlinux"
	if f, err := os.Open(m.file(at)); err != nil {
		return unmet("type information (BTF)", "use a kernel that is built with CONFIG_DEBUG_INFO_BTF (those of Debian 12, Ubuntu 22.04 and RHEL 9 are), and mount /sys in the container", "%v", err)
	} else {
		_ = f.Close()
	}
	return met("type information (BTF)", "/%s", at)
}

func (m *Machine) lockdown() Need {
	const name = "lockdown"
	text, err := m.read("sys/kernel/security/lockdown")
	switch {
	case err == nil && strings.Contains(text, "[confidentiality]"):
		return unmet(name, "boot without lockdown=confidentiality: it lets no program read memory, and nothing can be watched; lockdown=integrity is no hindrance", "%s", text)
	case err == nil:
		return met(name, "%s", text)
	}
	// Where the probe starts, nothing is locked down.
	return met(name, "the kernel says nothing of it (no /sys/kernel/security/lockdown)")
}

func (m *Machine) uprobes() Need {
	const name = "uprobes"
	if m.since(6, 6) {
		return met(name, "by links of several places (Linux 6.6 and later)")
	}
	if text, err := m.read("sys/bus/event_source/devices/uprobe/type"); err == nil {
		return met(name, "by perf events (type %s)", text)
	}
	return unmet(name, "use a kernel that is built with CONFIG_UPROBE_EVENTS: without it RDMA is not seen", "no /sys/bus/event_source/devices/uprobe")
}

func (m *Machine) rights() Need {
	missing := probe.Missing(m.Permitted, !m.since(6, 6))
	if len(missing) == 0 {
		return met("rights", "all that the probe needs; it keeps only what late attaches ask for")
	}
	return unmet("rights", "run it as root (sudo), or give the container these capabilities; without them engines are followed through their own events only", "%s missing", strings.Join(missing, ", "))
}

func (m *Machine) paranoid() Need {
	const name = "perf_event_paranoid"
	text, err := m.read("proc/sys/kernel/perf_event_paranoid")
	switch {
	case err != nil:
		return unknown(name, "mount /proc", "%v", err)
	case m.Permitted&(1<<unix.CAP_PERFMON) != 0:
		return met(name, "%s, of which CAP_PERFMON is free", text)
	}
	return unmet(name, "give it CAP_PERFMON: then kernel.perf_event_paranoid may stay as it is", "%s, and CAP_PERFMON is missing", text)
}

// firstNamespace is the inode of the node's first PID namespace.
const firstNamespace = "pid:[4026531836]"

func (m *Machine) namespace() Need {
	const name, remedy = "PID namespace", "share the node's (hostPID: true in Kubernetes, --pid=host in Docker): the kernel counts processes by the numbers of the first one"
	ns, err := os.Readlink(m.file("proc/self/ns/pid"))
	switch {
	case err != nil:
		return unknown(name, remedy, "%v", err)
	case ns != firstNamespace:
		return unmet(name, remedy, "this runs in one of its own (%s)", ns)
	}
	return met(name, "the node's first")
}

// manyLocked is what maps of the probe take, in bytes, before 5.11.
const manyLocked = 128 << 20

func (m *Machine) memlock() Need {
	const name = "locked memory"
	if m.since(5, 11) {
		return met(name, "maps count for the control group, not for a limit (Linux 5.11 and later)")
	}
	if m.Memlock < manyLocked {
		return unmet(name, "ulimit -l unlimited, or LimitMEMLOCK=infinity in the unit", "at most %d bytes may be locked", m.Memlock)
	}
	return met(name, "%d bytes may be locked", m.Memlock)
}

func (m *Machine) gpu() Need {
	const name = "GPU"
	text, err := m.read("proc/driver/nvidia/version")
	if errors.Is(err, fs.ErrNotExist) {
		return met(name, "none with NVIDIA's driver here: nothing is asked of one")
	}
	if err != nil {
		return unknown(name, "let this process read /proc/driver/nvidia/version", "%v", err)
	}
	first, _, _ := strings.Cut(text, "\n")
	return met(name, "%s", strings.TrimPrefix(first, "NVRM version: "))
}
