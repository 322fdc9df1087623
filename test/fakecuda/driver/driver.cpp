// A libcuda of our own: the calls that the backend makes, over the memory and the
// processor of the host. What it does not know it answers with CUDA_ERROR_NOT_SUPPORTED
// (stubs, made by build.sh). A module is whatever it is given; its functions are the
// kernels that this library was built with.
#include <cuda.h>

#include <mutex>
#include <set>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "fibres.h"

#define API extern "C" __attribute__((visibility("default"))) CUresult
#define KERNELS(each)                                                                                             \
	each(kv_append) each(kv_attention_float32_64) each(kv_attention_float32_128) each(kv_attention_bfloat16_64) \
	    each(kv_attention_bfloat16_128) each(kv_attention_float16_64) each(kv_attention_float16_128)            \
	        each(kv_merge) each(kv_digest) each(kv_clear_tags) each(kv_scrub)

#define DECLARE(name) extern "C" void name(const void *);
KERNELS(DECLARE)

struct Known {
	const char *name;
	Kernel kernel;
};
#define ROW(name) {#name, name},
static const Known known[] = {KERNELS(ROW)};

static std::mutex one; // a launch or a change of the books at a time
static std::set<void *> allocated;
static int context, module, stream;
static thread_local bool current; // the thread has the context

#define NEEDS_CONTEXT \
	if (!current) return CUDA_ERROR_INVALID_CONTEXT

API cuInit(unsigned) {
	if (getenv("FAKECUDA_CRASH")) {
		signal(SIGSEGV, SIG_DFL);
		raise(SIGSEGV);
	}
	return getenv("FAKECUDA_NO_DEVICE") ? CUDA_ERROR_NO_DEVICE : CUDA_SUCCESS;
}
API cuDriverGetVersion(int *version) { return *version = CUDA_VERSION, CUDA_SUCCESS; }
API cuDeviceGetCount(int *count) { return *count = 1, CUDA_SUCCESS; }
API cuDeviceGet(CUdevice *device, int ordinal) {
	if (ordinal != 0) return CUDA_ERROR_INVALID_DEVICE;
	return *device = 0, CUDA_SUCCESS;
}
API cuDeviceGetName(char *name, int size, CUdevice) {
	strncpy(name, "fakecuda (a CPU)", size);
	return CUDA_SUCCESS;
}
API cuDeviceGetAttribute(int *value, CUdevice_attribute what, CUdevice) {
	switch (what) {
	case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: *value = 9; break;
	case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: *value = 2; break;
	case CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS: *value = 1; break;
	default: *value = 0;
	}
	return CUDA_SUCCESS;
}

API cuCtxCreate(CUcontext *made, unsigned, CUdevice) {
	current = true;
	return *made = (CUcontext)&context, CUDA_SUCCESS;
}
API cuCtxDestroy(CUcontext c) {
	if (c != (CUcontext)&context) return CUDA_ERROR_INVALID_CONTEXT;
	current = false;
	return CUDA_SUCCESS;
}
API cuCtxSetCurrent(CUcontext c) {
	current = c == (CUcontext)&context;
	return CUDA_SUCCESS;
}

API cuModuleLoadData(CUmodule *loaded, const void *image) {
	NEEDS_CONTEXT;
	if (!strstr((const char *)image, ".visible .entry kv_append")) return CUDA_ERROR_INVALID_PTX;
	return *loaded = (CUmodule)&module, CUDA_SUCCESS;
}
API cuModuleUnload(CUmodule) { return CUDA_SUCCESS; }
API cuModuleGetFunction(CUfunction *function, CUmodule, const char *name) {
	for (const Known &k : known) {
		if (strcmp(k.name, name) == 0) return *function = (CUfunction)&k, CUDA_SUCCESS;
	}
	return CUDA_ERROR_NOT_FOUND;
}
API cuLaunchKernel(CUfunction f, unsigned x, unsigned y, unsigned z, unsigned threads, unsigned ty, unsigned tz,
                   unsigned, CUstream, void **params, void **) {
	NEEDS_CONTEXT;
	std::lock_guard<std::mutex> lock(one);
	if (x == 0 || y == 0 || z == 0 || y > 65535 || z > 65535 || ty != 1 || tz != 1) return CUDA_ERROR_INVALID_VALUE;
	bool ran = launch(((const Known *)f)->kernel, *(const void **)params[0], {x, y, z}, threads);
	return ran ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

// Fresh memory holds what no kernel may take for anything.
static CUresult allocate(void **p, size_t size) {
	std::lock_guard<std::mutex> lock(one);
	if (size == 0 || posix_memalign(p, 4096, size)) return CUDA_ERROR_OUT_OF_MEMORY;
	memset(*p, 0xfe, size);
	allocated.insert(*p);
	return CUDA_SUCCESS;
}
static CUresult release(void *p) {
	std::lock_guard<std::mutex> lock(one);
	if (!allocated.erase(p)) return CUDA_ERROR_INVALID_VALUE;
	free(p);
	return CUDA_SUCCESS;
}
API cuMemAlloc(CUdeviceptr *p, size_t size) {
	NEEDS_CONTEXT;
	return allocate((void **)p, size);
}
API cuMemAllocManaged(CUdeviceptr *p, size_t size, unsigned) {
	NEEDS_CONTEXT;
	return allocate((void **)p, size);
}
API cuMemHostAlloc(void **p, size_t size, unsigned) {
	NEEDS_CONTEXT;
	return allocate(p, size);
}
API cuMemFree(CUdeviceptr p) { return release((void *)p); }
API cuMemFreeHost(void *p) { return release(p); }
API cuMemsetD8(CUdeviceptr p, unsigned char value, size_t size) {
	NEEDS_CONTEXT;
	memset((void *)p, value, size);
	return CUDA_SUCCESS;
}
API cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, size_t size, CUstream) {
	NEEDS_CONTEXT;
	memcpy((void *)to, (void *)from, size);
	return CUDA_SUCCESS;
}
API cuMemcpyHtoD(CUdeviceptr to, const void *from, size_t size) {
	NEEDS_CONTEXT;
	memcpy((void *)to, from, size);
	return CUDA_SUCCESS;
}

API cuStreamCreate(CUstream *made, unsigned) { return *made = (CUstream)&stream, CUDA_SUCCESS; }
API cuStreamSynchronize(CUstream) { return CUDA_SUCCESS; }
API cuStreamDestroy(CUstream) { return CUDA_SUCCESS; }

// An event is the time at which it was recorded.
API cuEventCreate(CUevent *made, unsigned) { return *made = (CUevent)calloc(1, sizeof(timespec)), CUDA_SUCCESS; }
API cuEventDestroy(CUevent e) { return free(e), CUDA_SUCCESS; }
API cuEventRecord(CUevent e, CUstream) { return clock_gettime(CLOCK_MONOTONIC, (timespec *)e), CUDA_SUCCESS; }
API cuEventSynchronize(CUevent) { return CUDA_SUCCESS; }
API cuEventElapsedTime(float *ms, CUevent a, CUevent b) {
	const timespec *from = (const timespec *)a, *to = (const timespec *)b;
	*ms = (to->tv_sec - from->tv_sec) * 1e3f + (to->tv_nsec - from->tv_nsec) / 1e6f;
	return CUDA_SUCCESS;
}
