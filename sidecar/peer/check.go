package peer

import (
	"errors"
	"fmt"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
)

// ErrNotTheirs is wrapped by the error about a fact that a peer cannot know.
var ErrNotTheirs = errors.New("not the peer's to say")

// sayable is whether a fact may come from a peer at all.
type sayable uint8

const (
	never    sayable = iota
	aboutOwn         // by one of the peer's engines, of itself
	aboutUs          // what the peer saw of this node's memory
	unknown          // an event that this version does not know
)

// kindOf says what a fact is, and whose it would have to be: the instance that it is
// about, and the peer's own instance that it concerns ("": any).
func kindOf(f *lifecycle.Fact) (what sayable, theirs string) {
	switch {
	case f.Ev == lifecycle.EvUnknown:
		return unknown, ""
	case f.Src == lifecycle.Engine && isClaim(f) && f.Epoch.Has:
		return aboutOwn, f.Inst
	case f.Src == lifecycle.Sidecar && (f.Ev == lifecycle.StreamGap || f.Ev == lifecycle.EventsLost) && f.Of == lifecycle.Engine:
		return aboutOwn, f.Inst
	case seesWrites(f.Src) && f.Ev == lifecycle.BytesMoved:
		return aboutUs, f.From
	case f.Src == lifecycle.Sidecar && f.Ev == lifecycle.SourceCoverage && seesWrites(f.Of) && f.Peer != "":
		return aboutUs, f.Peer
	}
	return never, ""
}

// isClaim reports whether an engine can say that of itself: what it cannot is an
// observation, or a statement about somebody's sight.
func isClaim(f *lifecycle.Fact) bool {
	switch f.Ev {
	case lifecycle.RegionRegistered, lifecycle.RegionDeregistered, lifecycle.BytesMoved, lifecycle.VRAMUsage,
		lifecycle.SourceCoverage, lifecycle.StreamGap, lifecycle.EventsLost, lifecycle.ClockOffset:
		return false
	case lifecycle.Watermark:
		return f.Of == lifecycle.Engine
	}
	return true
}

// seesWrites reports whether a source sees bytes that arrive in memory.
func seesWrites(s lifecycle.Src) bool {
	return s == lifecycle.RDMA || s == lifecycle.TCP || s == lifecycle.CUDA
}

func notTheirs(f *lifecycle.Fact) error {
	return fmt.Errorf("%w: %s by %s", ErrNotTheirs, f.Ev, f.Src)
}
