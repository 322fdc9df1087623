/*
 * A libcuda for tests: the driver's memory, without memory. Declarations are those of
 * the driver's public interface, as far as they are needed. What is freed is given out
 * again first, so that threads hand the same addresses to each other.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef int result;
typedef unsigned long long address;
enum { SUCCESS = 0, INVALID = 1, OUT_OF_MEMORY = 2 };

#define EACH (64ULL << 20) /* the most that one allocation takes */
#define FIRST 0x700000000000ULL
#define SLOTS (1 << 20)

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint32_t freed[SLOTS];
static uint8_t used[SLOTS];
static uint32_t frees, begun;

static address take(void)
{
	address at = 0;

	pthread_mutex_lock(&lock);
	if (frees || begun < SLOTS) {
		uint32_t slot = frees ? freed[--frees] : begun++;

		used[slot] = 1;
		at = FIRST + slot * EACH;
	}
	pthread_mutex_unlock(&lock);
	return at;
}

static result give(address at)
{
	uint64_t slot = (at - FIRST) / EACH;
	result r = INVALID;

	pthread_mutex_lock(&lock);
	if (at >= FIRST && slot < SLOTS && used[slot] && at == FIRST + slot * EACH) {
		used[slot] = 0;
		freed[frees++] = slot;
		r = SUCCESS;
	}
	pthread_mutex_unlock(&lock);
	return r;
}

result cuMemAlloc_v2(address *at, size_t bytes)
{
	if (!bytes || bytes > EACH)
		return OUT_OF_MEMORY;
	*at = take();
	return *at ? SUCCESS : OUT_OF_MEMORY;
}

result cuMemFree_v2(address at) { return at ? give(at) : SUCCESS; }

/* Functions that go through others that are exported: by a jump, with the same frame,
 * or, where they do something after it, by a call. */
static result after(result r)
{
	asm volatile("" : "+r"(r));
	return r;
}

result cuMemAllocPitch_v2(address *at, size_t *pitch, size_t width, size_t height, unsigned element)
{
	*pitch = (width + 511) & ~511ULL;
	return after(cuMemAlloc_v2(at, *pitch * height));
}

result cuMemAllocManaged(address *at, size_t bytes, unsigned flags) { return cuMemAlloc_v2(at, bytes); }

result cuMemAllocFromPoolAsync(address *at, size_t bytes, void *pool, void *stream)
{
	if (!bytes || bytes > EACH)
		return OUT_OF_MEMORY;
	*at = take();
	return *at ? SUCCESS : OUT_OF_MEMORY;
}

result cuMemAllocAsync(address *at, size_t bytes, void *stream) { return cuMemAllocFromPoolAsync(at, bytes, 0, stream); }
result cuMemAllocAsync_ptsz(address *at, size_t bytes, void *stream) { return after(cuMemAllocAsync(at, bytes, stream)); }
result cuMemFreeAsync(address at, void *stream) { return cuMemFree_v2(at); }

/* Names that lead to one function. */
result cuMemFreeAsync_ptsz(address, void *) __attribute__((alias("cuMemFreeAsync")));

/* Those of 2010. */
result cuMemAlloc(unsigned *at, unsigned bytes)
{
	*at = bytes;
	return SUCCESS;
}

/* Handles are of the same numbers as addresses. */
result cuMemCreate(address *handle, size_t bytes, const void *properties, address flags)
{
	*handle = take();
	return *handle ? SUCCESS : OUT_OF_MEMORY;
}

result cuMemAddressReserve(address *at, size_t bytes, size_t alignment, address wanted, address flags)
{
	*at = take();
	return *at ? SUCCESS : OUT_OF_MEMORY;
}

result cuMemAddressFree(address at, size_t bytes) { return give(at); }
result cuMemMap(address at, size_t bytes, size_t offset, address handle, address flags) { return at && handle ? SUCCESS : INVALID; }
result cuMemUnmap(address at, size_t bytes) { return at ? SUCCESS : INVALID; }

/* The one mapping whose handle is asked for again. */
static __thread address retained;
result cuMemRetainAllocationHandle(address *handle, void *at)
{
	*handle = retained;
	return retained ? SUCCESS : INVALID;
}
void stub_retain(address handle) { retained = handle; }

result cuMemRelease(address handle)
{
	if (handle != retained)
		return give(handle);
	retained = 0;
	return SUCCESS;
}

/* A handle by which another process opens memory. */
struct shared {
	uint64_t at, salt[7];
};

result cuIpcGetMemHandle(struct shared *handle, address at)
{
	memset(handle, 0, sizeof(*handle));
	handle->at = at;
	handle->salt[6] = 0x5a5a;
	return SUCCESS;
}

result cuIpcOpenMemHandle_v2(address *at, struct shared handle, unsigned flags)
{
	if (handle.salt[6] != 0x5a5a)
		return INVALID;
	*at = take();
	return *at ? SUCCESS : OUT_OF_MEMORY;
}

result cuIpcOpenMemHandle(address *, struct shared, unsigned) __attribute__((alias("cuIpcOpenMemHandle_v2")));
result cuIpcCloseMemHandle(address at) { return give(at); }

/* What is lent by descriptor is an open file of the driver's device, of which there is one
 * inode. A handle of fabric (type 8) is like that of IPC. */
static result share(void *shared, address handle, int type)
{
	if (type == 8)
		*(struct shared *)shared = (struct shared){ .at = handle, .salt[6] = 0x5a5a };
	if (type != 1)
		return type == 8 ? SUCCESS : INVALID;
	*(int *)shared = open("/dev/null", O_RDWR | O_CLOEXEC);
	return *(int *)shared < 0 ? INVALID : SUCCESS;
}

static result import(address *handle, void *shared, int type)
{
	if (type == 8 ? ((struct shared *)shared)->salt[6] != 0x5a5a : fcntl((int)(intptr_t)shared, F_GETFD) < 0)
		return INVALID;
	*handle = take();
	return *handle ? SUCCESS : OUT_OF_MEMORY;
}

result cuMemExportToShareableHandle(void *shared, address handle, int type, address flags) { return share(shared, handle, type); }
result cuMemImportFromShareableHandle(address *handle, void *shared, int type) { return import(handle, shared, type); }
result cuMemPoolExportToShareableHandle(void *shared, address pool, int type, address flags) { return share(shared, pool, type); }
result cuMemPoolImportFromShareableHandle(address *pool, void *shared, int type, address flags) { return import(pool, shared, type); }

/* Copies, of what is not there; some by others. */
result cuMemcpy(address to, address from, size_t bytes) { return to && from && bytes ? SUCCESS : INVALID; }
result cuMemcpyAsync(address to, address from, size_t bytes, void *stream) { return after(cuMemcpy(to, from, bytes)); }
result cuMemcpyDtoD_v2(address to, address from, size_t bytes) { return to && from && bytes ? SUCCESS : INVALID; }
result cuMemcpyDtoDAsync_v2(address to, address from, size_t bytes, void *stream) { return cuMemcpyAsync(to, from, bytes, stream); }
result cuMemcpyDtoDAsync_v2_ptsz(address, address, size_t, void *) __attribute__((alias("cuMemcpyDtoDAsync_v2")));
result cuMemcpyHtoDAsync_v2(address to, const void *from, size_t bytes, void *stream) { return cuMemcpyDtoD_v2(to, (address)(uintptr_t)from, bytes); }
result cuMemcpyPeerAsync(address to, void *of, address from, void *its, size_t bytes, void *stream) { return to && from && bytes ? SUCCESS : INVALID; }
result cuMemcpy2D_v2(const void *what) { return what ? SUCCESS : INVALID; }

result cuDevicePrimaryCtxRetain(void **context, int device)
{
	*context = &lock;
	return SUCCESS;
}

result cuDevicePrimaryCtxRelease_v2(int device) { return device < 0 ? INVALID : SUCCESS; }
result cuCtxDestroy_v2(void *context) { return context ? SUCCESS : INVALID; }

result cuGetProcAddress_v2(const char *name, void **function, int version, address flags, int *found)
{
	static const struct {
		const char *name;
		void *function;
	} all[] = {
		{ "cuMemAlloc", cuMemAlloc_v2 }, { "cuMemFree", cuMemFree_v2 }, { "cuMemAllocPitch", cuMemAllocPitch_v2 },
		{ "cuMemAllocManaged", cuMemAllocManaged }, { "cuMemAllocAsync", cuMemAllocAsync_ptsz }, { "cuMemFreeAsync", cuMemFreeAsync },
	};

	for (unsigned i = 0; i < sizeof(all) / sizeof(*all); i++)
		if (!strcmp(all[i].name, name)) {
			*function = all[i].function;
			return SUCCESS;
		}
	return INVALID;
}
