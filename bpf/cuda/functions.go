//go:build linux && amd64

package cuda

import (
	"errors"
	"fmt"
	"slices"

	"github.com/kvwitness/kvwitness/bpf/target"
	"github.com/kvwitness/kvwitness/bpf/uprobe"
	source "github.com/kvwitness/kvwitness/sidecar/source/cuda"
)

// function is one of the driver's, in all its variants.
type function struct {
	kind  source.Kind
	names []string
}

// functions are what is attached to in libcuda, in all their variants: _v2 is what
// programs of today are bound to, _ptsz what those with a default stream for each
// thread are. Names that lead to one place are one function: the first counts.
var functions = []function{
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

// copying are those by which memory is copied, attached to where that is asked for. _ptds
// and _ptsz are of programs with a default stream for each thread.
var copying = []function{
	{source.Copy, []string{
		"cuMemcpy", "cuMemcpy_ptds", "cuMemcpyAsync", "cuMemcpyAsync_ptsz",
		"cuMemcpyHtoD_v2", "cuMemcpyHtoD_v2_ptds", "cuMemcpyHtoDAsync_v2", "cuMemcpyHtoDAsync_v2_ptsz",
		"cuMemcpyDtoH_v2", "cuMemcpyDtoH_v2_ptds", "cuMemcpyDtoHAsync_v2", "cuMemcpyDtoHAsync_v2_ptsz",
		"cuMemcpyDtoD_v2", "cuMemcpyDtoD_v2_ptds", "cuMemcpyDtoDAsync_v2", "cuMemcpyDtoDAsync_v2_ptsz",
	}},
	{source.CopyPeer, []string{"cuMemcpyPeer", "cuMemcpyPeer_ptds", "cuMemcpyPeerAsync", "cuMemcpyPeerAsync_ptsz"}},
	{source.CopyUnfollowed, []string{
		"cuMemcpy2D_v2", "cuMemcpy2D_v2_ptds", "cuMemcpy2DUnaligned_v2", "cuMemcpy2DUnaligned_v2_ptds", "cuMemcpy2DAsync_v2", "cuMemcpy2DAsync_v2_ptsz",
		"cuMemcpy3D_v2", "cuMemcpy3D_v2_ptds", "cuMemcpy3DAsync_v2", "cuMemcpy3DAsync_v2_ptsz",
		"cuMemcpy3DPeer", "cuMemcpy3DPeer_ptds", "cuMemcpy3DPeerAsync", "cuMemcpy3DPeerAsync_ptsz",
		"cuMemcpyBatchAsync", "cuMemcpyBatchAsync_ptsz", "cuMemcpyBatchAsync_v2", "cuMemcpyBatchAsync_v2_ptsz",
		"cuMemcpy3DBatchAsync", "cuMemcpy3DBatchAsync_ptsz", "cuMemcpy3DBatchAsync_v2", "cuMemcpy3DBatchAsync_v2_ptsz",
	}},
}

// points are where the functions begin in an object; the cookie of each is a number of
// its own, and in the low byte its kind. Without the plainest nothing is
// seen; of the others a driver may be too old to have them, and then nobody calls them.
func points(o *target.Object, copies bool) ([]uprobe.Point, error) {
	var all []uprobe.Point
	taken := map[uint64]bool{}
	wanted := functions
	if copies {
		wanted = slices.Concat(functions, copying)
	}
	for _, f := range wanted {
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
