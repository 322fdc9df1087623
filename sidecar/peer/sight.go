package peer

import (
	"github.com/kvwitness/kvwitness/engine/lifecycle"
)

// path is a way of data that a source observes: from an instance into another.
type path struct {
	of         lifecycle.Src
	into, from string
}

// maxPaths bounds the paths whose sight is remembered.
const maxPaths = 1 << 12

// sights are the paths that the probe of this node says it sees completely, so that
// one who connects later is told.
type sights map[path]*lifecycle.Fact

// learn takes note of what the probe says of its sight, and returns the facts that
// say the same of single paths: a loss of the whole node names none.
func (s sights) learn(f *lifecycle.Fact) []*lifecycle.Fact {
	switch {
	case f.Ev == lifecycle.SourceCoverage && f.Peer != "":
		p := path{f.Of, f.Inst, f.Peer}
		if !f.Complete {
			delete(s, p)
		} else if len(s) < maxPaths {
			s[p] = f
		}
		return []*lifecycle.Fact{f}
	case f.Ev == lifecycle.SourceCoverage && f.Complete:
		return nil // of all peers: not for one node to say of another's memory
	case f.Ev == lifecycle.SourceCoverage || f.Ev == lifecycle.EventsLost || f.Ev == lifecycle.StreamGap:
		return s.lose(f)
	}
	return nil
}

// lose ends the sight of all paths that a loss is about.
func (s sights) lose(f *lifecycle.Fact) (gone []*lifecycle.Fact) {
	for p := range s {
		if p.of == f.Of && (f.Inst == "" || f.Inst == p.into) {
			delete(s, p)
			gone = append(gone, noSight(f.T, f.Node, p, "something that it saw was lost"))
		}
	}
	return gone
}

// noSight says that a path is not seen any more.
func noSight(t int64, node string, p path, why string) *lifecycle.Fact {
	return &lifecycle.Fact{
		T: t, Node: node, Inst: p.into, Src: lifecycle.Sidecar, Ev: lifecycle.SourceCoverage, Of: p.of, Peer: p.from, Reason: why,
	}
}
