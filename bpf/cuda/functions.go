//go:build linux && amd64

package cuda

import (
	"errors"
	"fmt"

	"github.com/kvwitness/kvwitness/bpf/target"
	"github.com/kvwitness/kvwitness/bpf/uprobe"
	source "github.com/kvwitness/kvwitness/sidecar/source/cuda"
)

// functions are what is attached to in libcuda, in all their variants: _v2 is what
// programs of today are bound to, _ptsz what those with a default stream for each
// thread are. Names that lead to one place are one function: the first counts.
var functions = []struct {
	kind  source.Kind
	names []string
}{
	{source.Alloc, []string{"cuMemAlloc_v2"}},
	{source.Managed, []string{"cuMemAllocManaged"}},
	{source.Pitched, []string{"cuMemAllocPitch_v2"}},
	{source.Pooled, []string{"cuMemAllocAsync", "cuMemAllocAsync_ptsz", "cuMemAllocFromPoolAsync", "cuMemAllocFromPoolAsync_ptsz"}},
	{source.Free, []string{"cuMemFree_v2", "cuMemFreeAsync", "cuMemFreeAsync_ptsz"}},
	{source.Create, []string{"cuMemCreate"}},
	{source.Import, []string{"cuMemImportFromShareableHandle"}},
	{source.Group, []string{"cuMulticastCreate"}},
	{source.Retain, []string{"cuMemRetainAllocationHandle"}},
	{source.Release, []string{"cuMemRelease"}},
	{source.Map, []string{"cuMemMap"}},
	{source.Unmap, []string{"cuMemUnmap"}},
	{source.Reserve, []string{"cuMemAddressReserve"}},
	{source.Unreserve, []string{"cuMemAddressFree"}},
	{source.Export, []string{"cuIpcGetMemHandle"}},
	{source.Open, []string{"cuIpcOpenMemHandle_v2", "cuIpcOpenMemHandle"}},
	{source.Close, []string{"cuIpcCloseMemHandle"}},
	{source.Lend, []string{"cuMemExportToShareableHandle"}},
	{source.LendPool, []string{"cuMemPoolExportToShareableHandle"}},
	{source.ImportPool, []string{"cuMemPoolImportFromShareableHandle"}},
	{source.ContextEnd, []string{"cuCtxDestroy_v2", "cuCtxDestroy", "cuCtxDetach", "cuDevicePrimaryCtxReset_v2", "cuDevicePrimaryCtxReset"}},
	{source.ContextRetain, []string{"cuDevicePrimaryCtxRetain"}},
	{source.ContextRelease, []string{"cuDevicePrimaryCtxRelease_v2", "cuDevicePrimaryCtxRelease"}},
	{source.Unfollowed, []string{
		"cuMemAlloc", "cuMemAllocPitch", "cuMemFree", // of 2010: addresses of 32 bits
		"cuExternalMemoryGetMappedBuffer", "cuMemPoolImportPointer", "cuGraphAddMemAllocNode", "cuMemMapArrayAsync", "cuMemMapArrayAsync_ptsz",
		"cuGraphicsResourceGetMappedPointer_v2", "cuGraphicsResourceGetMappedPointer",
	}},
}

// points are where the functions begin in an object; the cookie of each is a number of
// its own, and in the low byte its kind. Without the plainest nothing is
// seen; of the others a driver may be too old to have them, and then nobody calls them.
func points(o *target.Object) ([]uprobe.Point, error) {
	var all []uprobe.Point
	taken := map[uint64]bool{}
	for _, f := range functions {
		for i, name := range f.names {
			offset, err := o.Symbol(name, "")
			needed := i == 0 && (f.kind == source.Alloc || f.kind == source.Free)
			if errors.Is(err, target.ErrNoSymbol) && !needed {
				continue
			}
			if err != nil {
				return nil, fmt.Errorf("look for what the driver exports: %w", err)
			}
			if !o.Starts(offset) {
				return nil, fmt.Errorf("%s: %w", name, target.ErrNotAFunction)
			}
			if !taken[offset] {
				taken[offset] = true
				all = append(all, uprobe.Point{Offset: offset, Cookie: uint64(len(taken))<<8 | uint64(f.kind)})
			}
		}
	}
	return all, nil
}
