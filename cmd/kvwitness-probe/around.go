//go:build linux && amd64

package main

import (
	"github.com/kvwitness/kvwitness/bpf/target"
	source "github.com/kvwitness/kvwitness/sidecar/source/verbs"
)

// caller is where a process called for a way around post_send.
type caller struct {
	pid  uint32
	addr uint64
}

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
	at := caller{g.PID, record.(source.About).ID}
	own, known := l.rdma.callers[at]
	if !known {
		if len(l.rdma.callers) >= maxWays {
			clear(l.rdma.callers)
		}
		own = l.calledByUCX(at)
		l.rdma.callers[at] = own
	}
	return own
}

func (l *loop) calledByUCX(at caller) bool {
	maps, err := target.Mappings(int(at.pid))
	if err != nil {
		return false
	}
	m, found := target.At(maps, at.addr)
	return found && m.Executable && target.IsTransport(m.Path) && l.ucx.Uses(int(at.pid), maps)
}
