package lifecycle

import (
	"fmt"
	"math/bits"
)

// checkSpans refuses memory that would reach beyond the end of the address
// space, so that whoever adds an address and a length need not look again.
func (f *Fact) checkSpans() error {
	switch f.Ev {
	case BytesMoved:
		return checkSpan(f, "addr", f.Addr, f.Bytes)
	case RegionRegistered, RegionDeregistered:
		return checkSpan(f, "base", f.Base, f.Bytes)
	case PoolOpened:
		for i, r := range f.Spec.Regions {
			high, length := bits.Mul64(uint64(f.Spec.Pages), r.Stride)
			if high != 0 || length > -r.Base-1 {
				return fmt.Errorf("%s: region %d: %d pages of stride %d from base %d reach beyond 64 bits",
					f.Ev, i, f.Spec.Pages, r.Stride, r.Base)
			}
		}
	}
	return nil
}

func checkSpan(f *Fact, name string, from, length uint64) error {
	if length > -from-1 {
		return fmt.Errorf("%s: %d bytes from %s %d reach beyond 64 bits", f.Ev, length, name, from)
	}
	return nil
}
