// cuda.h for gorgonia.org/cu, which calls five functions as they were before CUDA 13:
// there their names stand for newer functions with other parameters. The older ones
// are still in libcuda, for programs that were built before. ready.sh puts this folder
// before the one of the real cuda.h; with that of CUDA 11 or 12 it changes nothing.
#pragma once
#include_next <cuda.h>

#if CUDA_VERSION >= 13000
#ifdef __cplusplus
extern "C" {
#endif

#undef cuCtxCreate
#define cuCtxCreate cuCtxCreate_v2
CUresult CUDAAPI cuCtxCreate(CUcontext *made, unsigned int flags, CUdevice device);

#undef cuMemAdvise
CUresult CUDAAPI cuMemAdvise(CUdeviceptr at, size_t count, CUmem_advise advice, CUdevice device);

#undef cuMemPrefetchAsync
CUresult CUDAAPI cuMemPrefetchAsync(CUdeviceptr at, size_t count, CUdevice to, CUstream stream);

#undef cuGraphGetEdges
CUresult CUDAAPI cuGraphGetEdges(CUgraph graph, CUgraphNode *from, CUgraphNode *to, size_t *count);

#undef cuGraphAddDependencies
CUresult CUDAAPI cuGraphAddDependencies(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to, size_t count);

#ifdef __cplusplus
}
#endif
#endif
