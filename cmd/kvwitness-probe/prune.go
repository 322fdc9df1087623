//go:build linux && amd64

package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/kvwitness/kvwitness/bpf/load"
	"github.com/kvwitness/kvwitness/sidecar/attach"
	"github.com/kvwitness/kvwitness/sidecar/probe"
)

// pruning is which followed connections are closed, found out beside the loop: to
// list the sockets of a namespace takes the kernel longer than a ring may wait.
type pruning struct {
	followed [2][]uint64 // of transfers and controls
	closed   [2][]uint64
}

// prune begins to look for connections that are closed, and forgets those that
// were found.
func (l *loop) prune(now time.Time) error {
	select {
	case done := <-l.pruned:
		l.pruning = false
		for i, p := range [...]*load.Probe{l.transfers, l.controls} {
			for _, inode := range done.closed[i] {
				if err := p.Forget(inode); err != nil {
					return err
				}
				l.write(probe.Gone, binary.LittleEndian.AppendUint64(nil, inode))
			}
		}
	default:
	}
	if l.pruning || now.Sub(l.lastPrune) < pruneEvery {
		return nil
	}
	l.lastPrune = now
	var p pruning
	for i, from := range [...]*load.Probe{l.transfers, l.controls} {
		var err error
		if p.followed[i], err = from.Connections(); err != nil {
			return err
		}
	}
	pids := slices.Collect(maps.Keys(l.watch.Watched()))
	l.pruning = true
	go func() {
		p.look(l.watch.Proc, pids)
		l.pruned <- p
	}()
	return nil
}

// look lists the sockets of each network namespace that a process is in. Where
// that fails nothing is taken for closed.
func (p *pruning) look(proc attach.Proc, pids []int) {
	open, seen := map[uint64]bool{}, map[string]bool{}
	for _, pid := range pids {
		ns, err := os.Readlink(fmt.Sprintf("%s/%d/ns/net", proc, pid))
		if errors.Is(err, fs.ErrNotExist) || seen[ns] && ns != "" {
			continue // it has ended, or its sockets are listed
		}
		seen[ns] = true
		if err := proc.Sockets(pid, open); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return
		}
	}
	for i, followed := range p.followed {
		for _, inode := range followed {
			if !open[inode] {
				p.closed[i] = append(p.closed[i], inode)
			}
		}
	}
}
