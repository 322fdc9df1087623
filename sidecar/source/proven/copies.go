package proven

import "github.com/kvwitness/kvwitness/sidecar/source/cuda"

// Copied is how many bytes a process copied by calls of the CUDA driver, of memory of an
// instance that it is: at least so many, as Stats and Counts say what is not in it. It is
// told and not judged: an engine moves its pages by such copies, and so does an attacker in
// its process.
type Copied struct {
	Into   uint64 `json:"into_bytes"`   // its pools, from elsewhere
	OutOf  uint64 `json:"out_of_bytes"` // its pools, to elsewhere
	Within uint64 `json:"within_bytes"` // from its pools to its pools
}

// copy takes in a copy, where it touches a pool of the process that made it. Addresses are
// that process's: what another has open of its memory lies elsewhere there.
func (s *State) copy(r *cuda.Record) {
	if !s.copies.New(r) {
		return
	}
	s.stats.Copies++
	uncounted := r.Kind == cuda.CopyUnfollowed
	for _, i := range s.byProcess[r.PID] {
		if !i.opened {
			continue
		}
		if i.exact == nil {
			i.exact = s.exactly(i.name, i.pools)
		}
		if i.exact == nil {
			uncounted = true
			continue
		}
		into, out := i.inPools(r.Base, r.Bytes), i.inPools(r.Other, r.Bytes)
		both := min(into, out)
		i.copied.Into += into - both
		i.copied.OutOf += out - both
		i.copied.Within += both
	}
	if uncounted {
		s.stats.Uncounted++
	}
}

// exactly is the memory of an instance's pools; nil: it is not known of all where they end.
func (s *State) exactly(name string, pools []pool) []span {
	var all []span
	for n := range pools {
		p := &pools[n]
		for _, r := range p.Regions {
			bytes, known := r.Stride*uint64(p.Pages), true
			if p.guessed {
				bytes, known = s.cfg.Extent(name, r.Base)
			}
			if !known {
				return nil
			}
			all = append(all, span{r.Base, r.Base + bytes})
		}
	}
	return merged(all)
}

// inPools is how many of some bytes lie in an instance's pools.
func (i *instance) inPools(address, bytes uint64) (n uint64) {
	within(i.exact, address, bytes, func(lo, hi uint64) { n += hi - lo })
	return n
}

// Copied is what processes copied, by the instance whose pools it touches.
func (s *State) Copied() map[string]Copied {
	all := map[string]Copied{}
	for name, i := range s.insts {
		all[name] = i.copied
	}
	return all
}
