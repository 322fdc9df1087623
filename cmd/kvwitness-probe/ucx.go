//go:build linux && amd64

package main

import (
	"context"
	"errors"

	"github.com/kvwitness/kvwitness/bpf/target"
	"github.com/kvwitness/kvwitness/bpf/ucp"
	source "github.com/kvwitness/kvwitness/sidecar/source/ucp"
)

// lookUCX attaches to the UCX that a process has mapped, and tells what came of it
// when that changes.
func (a *attacher) lookUCX(ctx context.Context, u *user, maps []target.Mapping) {
	since, err := a.ucx.Watch(u.pid, maps)
	if errors.Is(err, ucp.ErrNoUCX) || hasEnded(err) {
		return
	}
	why := ""
	if err != nil {
		why = err.Error()
	}
	if u.ucx && why == u.ucxProblem {
		return
	}
	u.ucx, u.ucxProblem = true, why
	a.tell(ctx, answered{asked: asked{what: watchUCX, pid: u.pid, t: monotonic()}, since: since, err: err})
}

// ucxRecord takes note of a record of the UCX probe, which was handed on: its process
// has UCX mapped, in a file that is attached to for another or by its path, and it is
// still to be told whether there is more of it.
func (l *loop) ucxRecord(b []byte) {
	h, kind, err := source.Peek(b)
	if err == nil && (kind == source.KindWorker || kind == source.KindEndpoint) {
		l.ask(asked{what: hintUCX, pid: int(h.PID)})
	}
}
