//go:build linux && amd64

package main

import (
	"github.com/kvwitness/kvwitness/bpf/target"
	source "github.com/kvwitness/kvwitness/sidecar/source/verbs"
)

// maxCallers bounds the places of a process that are looked up: to look costs the loop
// as long as reading what the process has mapped.
const maxCallers = 64

// isUCXsOwn reports whether a record of verbs is of a way around post_send that UCX
// called for itself: what it then rings doorbells for was handed to it, and is seen
// there, or it is said why it is not.
func (l *loop) isUCXsOwn(b []byte) bool {
	g, err := source.Peek(b)
	if err != nil || g.Kind != source.KindBypass {
		return false
	}
	record, err := source.Decode(b)
	if err != nil {
		return false
	}
	caller := record.(source.About).ID
	known := l.rdma.callers[g.PID]
	own, asked := known[caller]
	if asked || len(known) >= maxCallers {
		return own
	}
	if known == nil {
		known = map[uint64]bool{}
		l.rdma.callers[g.PID] = known
	}
	own = l.calledByUCX(int(g.PID), caller)
	known[caller] = own
	return own
}

func (l *loop) calledByUCX(pid int, caller uint64) bool {
	maps, err := target.Mappings(pid)
	if err != nil {
		return false
	}
	m, found := target.At(maps, caller)
	return found && m.Executable && target.IsTransport(m.Path) && l.ucx.Uses(pid, maps)
}
