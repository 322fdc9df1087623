package check

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kvwitness/kvwitness/bpf/target"
	"github.com/kvwitness/kvwitness/sidecar/attach"
)

// maxShown is how many processes are shown.
const maxShown = 64

// Processes are the needs of the processes that match rules.
func (m *Machine) Processes(rules []attach.Rule) (needs []Need) {
	const name = "processes"
	if len(rules) == 0 {
		return []Need{met(name, "none is to be watched (watch is empty)")}
	}
	matched := map[string]int{}
	w := attach.Watch{
		Proc: attach.Proc(m.file("proc")), Rules: rules, Self: os.Getpid(), Ended: func(attach.Process) {},
		Started: func(p attach.Process) error { matched[p.Rule]++; return nil },
	}
	if err := w.Scan(); err != nil {
		return []Need{unknown(name, "mount /proc", "%v", err)}
	}
	for _, r := range rules {
		if matched[r.String()] == 0 && !later(w.Watched(), r) {
			needs = append(needs, unmet("processes "+r.String(), "start the engine, or change the rule: kvwitness sees what is started later too", "none matches"))
			continue
		}
		needs = append(needs, met("processes "+r.String(), "%d match", max(matched[r.String()], 1)))
	}
	var pids []int
	for pid := range w.Watched() {
		pids = append(pids, pid)
	}
	slices.Sort(pids)
	for _, pid := range pids[:min(len(pids), maxShown)] {
		needs = append(needs, m.process(pid, w.Watched()[pid]))
	}
	return needs
}

// later reports whether a rule matches a process that another matched first.
func later(all map[int]attach.Process, r attach.Rule) bool {
	for _, p := range all {
		if r.Matches(&p) {
			return true
		}
	}
	return false
}

// process says what of one process's transfers can be seen.
func (m *Machine) process(pid int, p attach.Process) Need {
	name := fmt.Sprintf("process %d", pid)
	what := target.FileName(p.Exe)
	if own, err := os.Readlink(m.file("proc/self/ns/mnt")); err == nil {
		if its, err := os.Readlink(m.file(fmt.Sprintf("proc/%d/ns/mnt", pid))); err == nil && its != own {
			what += " in a container"
		}
	}
	maps, err := target.Mappings(pid)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return met(name, "%s, which has just ended", what)
		}
		return unknown(name, "give this process CAP_SYS_PTRACE (run it as root)", "%s: %v", what, err)
	}
	verbs, providers, ucx := mapped(maps)
	devices := m.devices(pid)
	if len(ucx) > 0 {
		what += " with UCX (" + strings.Join(ucx, ", ") + "), whose puts and gets are seen"
	}
	switch {
	case len(verbs) == 0 && devices > 0:
		return unmet(name, "link it with the shared libibverbs: what a program that carries its own copy posts is not seen", "%s has %d RDMA devices open and no libibverbs", what, devices)
	case len(verbs) == 0:
		return met(name, "%s; no libibverbs: its transfers over TCP are seen", what)
	case len(providers) == 0:
		return met(name, "%s; %s, and no device is open", what, strings.Join(verbs, ", "))
	}
	return met(name, "%s; %s with %s", what, strings.Join(verbs, ", "), strings.Join(providers, ", "))
}

// mapped are the files of RDMA that a process has mapped.
func mapped(maps []target.Mapping) (verbs, providers, ucx []string) {
	for _, m := range maps {
		if !m.Executable {
			continue
		}
		name := target.FileName(m.Path)
		switch {
		case target.IsVerbs(m.Path):
			verbs = append(verbs, name)
		case target.IsProvider(m.Path):
			providers = append(providers, name)
		case target.IsUCX(m.Path):
			ucx = append(ucx, name)
		}
	}
	return slices.Compact(verbs), slices.Compact(providers), slices.Compact(ucx)
}

// devices is how many RDMA devices a process has open.
func (m *Machine) devices(pid int) (n int) {
	names, _ := filepath.Glob(m.file(fmt.Sprintf("proc/%d/fd/*", pid))) // the pattern is right
	for _, name := range names {
		if to, err := os.Readlink(name); err == nil && strings.HasPrefix(to, "/dev/infiniband/uverbs") {
			n++
		}
	}
	return n
}
