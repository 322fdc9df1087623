package evidence

import (
	"bufio"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Process is a process of an engine, as far as /proc tells this one.
type Process struct {
	PID       int64    `json:"pid"`
	Exe       string   `json:"exe,omitzero"`
	Libraries []string `json:"libraries,omitempty"` // that move KV pages
	Problem   string   `json:"problem,omitzero"`    // why that is not known
}

const (
	maxProcesses = 16
	maxLibraries = 64
	maxMaps      = 4 << 20
)

// movers are parts of the names of libraries that move KV pages.
var movers = []string{"libcuda", "libcudart", "libibverbs", "libmlx5", "libmlx4", "librdmacm", "libefa", "libnccl", "libucp", "libuct", "nixl", "mooncake", "transfer_engine", "libtorch_cuda", "libnvidia-ml"}

// process looks at one process; root is the root of the file system.
func process(root string, pid int64) Process {
	p := Process{PID: pid}
	dir := filepath.Join(root, "proc", strconv.FormatInt(pid, 10))
	exe, err := os.Readlink(filepath.Join(dir, "exe"))
	if err != nil {
		p.Problem = reason(err)
		return p
	}
	p.Exe = exe
	maps, err := os.Open(filepath.Join(dir, "maps"))
	if err != nil {
		p.Problem = reason(err)
		return p
	}
	defer maps.Close()
	for lines := bufio.NewScanner(io.LimitReader(maps, maxMaps)); lines.Scan() && len(p.Libraries) < maxLibraries; {
		fields := strings.Fields(lines.Text())
		if len(fields) < 6 || slices.Contains(p.Libraries, fields[5]) {
			continue
		}
		name := filepath.Base(fields[5])
		if slices.ContainsFunc(movers, func(part string) bool { return strings.Contains(name, part) }) {
			p.Libraries = append(p.Libraries, fields[5])
		}
	}
	return p
}

// reason is an error without the path.
func reason(err error) string {
	switch {
	case os.IsNotExist(err):
		return "there is no such process here"
	case os.IsPermission(err):
		return "this user may not look at it"
	}
	return "it cannot be read"
}

// versions are those of what runs under the engines.
func versions(root, witness string) Versions {
	v := Versions{Witness: witness, Driver: "none"}
	v.Kernel = firstLine(filepath.Join(root, "proc/sys/kernel/osrelease"))
	if driver := firstLine(filepath.Join(root, "proc/driver/nvidia/version")); driver != "" {
		v.Driver = driver
	}
	return v
}

func firstLine(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, 256))
	if err != nil {
		return ""
	}
	line, _, _ := strings.Cut(string(text), "\n")
	return strings.TrimSpace(line)
}
