/*
 * A process to be watched: it loads libcuda as any program does, does what it is told on
 * standard input, a command a line, and answers each with a line. It keeps books of its
 * own; "books" tells them.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

typedef int result;
typedef unsigned long long address;
struct shared {
	unsigned char bytes[64];
};

/* f##name is the driver's function; the second way to it is by cuGetProcAddress. */
#define FUNCTIONS(each)                                                                                     \
	each(cuMemAlloc_v2, (address *, size_t)) each(cuMemFree_v2, (address))                              \
	each(cuMemAllocPitch_v2, (address *, size_t *, size_t, size_t, unsigned))                           \
	each(cuMemAllocManaged, (address *, size_t, unsigned)) each(cuMemAllocAsync, (address *, size_t, void *)) \
	each(cuMemAllocAsync_ptsz, (address *, size_t, void *)) each(cuMemFreeAsync, (address, void *))     \
	each(cuMemAllocFromPoolAsync, (address *, size_t, void *, void *)) each(cuMemFreeAsync_ptsz, (address, void *)) \
	each(cuMemAlloc, (unsigned *, unsigned)) each(cuMemCreate, (address *, size_t, const void *, address)) \
	each(cuMemRelease, (address)) each(cuMemAddressReserve, (address *, size_t, size_t, address, address)) \
	each(cuMemAddressFree, (address, size_t)) each(cuMemMap, (address, size_t, size_t, address, address)) \
	each(cuMemUnmap, (address, size_t)) each(cuMemRetainAllocationHandle, (address *, void *))          \
	each(cuIpcGetMemHandle, (struct shared *, address)) each(cuIpcOpenMemHandle_v2, (address *, struct shared, unsigned)) \
	each(cuMemExportToShareableHandle, (void *, address, int, address)) each(cuMemImportFromShareableHandle, (address *, void *, int)) \
	each(cuMemPoolExportToShareableHandle, (void *, address, int, address)) \
	each(cuMemcpyDtoD_v2, (address, address, size_t)) \
	each(cuMemcpyDtoDAsync_v2, (address, address, size_t, void *)) each(cuMemcpyHtoDAsync_v2, (address, const void *, size_t, void *)) \
	each(cuMemcpyPeerAsync, (address, void *, address, void *, size_t, void *)) each(cuMemcpy2D_v2, (const void *)) \
	each(cuMemPoolImportFromShareableHandle, (address *, void *, int, address)) each(cuIpcCloseMemHandle, (address)) each(cuDevicePrimaryCtxRetain, (void **, int))                 \
	each(cuDevicePrimaryCtxRelease_v2, (int)) each(cuCtxDestroy_v2, (void *)) each(stub_retain, (address)) \
	each(cuGetProcAddress_v2, (const char *, void **, int, address, int *))

#define DECLARE(name, arguments) static result(*f##name) arguments;
FUNCTIONS(DECLARE)

static result (*alloc2)(address *, size_t), (*free2)(address), (*async2)(address *, size_t, void *);

static void must(int ok, const char *what)
{
	if (!ok) {
		fprintf(stderr, "caller: %s\n", what);
		exit(1);
	}
}

static void load(void)
{
	void *driver = dlopen("libcuda.so.1", RTLD_NOW);

	must(driver != NULL, "no libcuda.so.1");
#define FIND(name, arguments) must((f##name = dlsym(driver, #name)) != NULL, #name);
	FUNCTIONS(FIND)
	must(!fcuGetProcAddress_v2("cuMemAlloc", (void **)&alloc2, 12000, 0, NULL), "cuGetProcAddress");
	must(!fcuGetProcAddress_v2("cuMemFree", (void **)&free2, 12000, 0, NULL), "cuGetProcAddress");
	must(!fcuGetProcAddress_v2("cuMemAllocAsync", (void **)&async2, 12000, 0, NULL), "cuGetProcAddress");
}

/* What lives, whoever made it: any thread may end it. */
enum { LINEAR, STREAM, CHUNK, MAPPED };
struct held {
	int what;
	address at, handle;
	uint64_t bytes;
};

#define MOST 4096
static struct held live[MOST];
static int lives;
static uint64_t allocated, given, calls;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static int put(struct held h)
{
	int kept = 0;

	pthread_mutex_lock(&lock);
	if (lives < MOST) {
		live[lives++] = h;
		allocated += h.bytes;
		kept = 1;
	}
	pthread_mutex_unlock(&lock);
	return kept;
}

static int pick(struct held *h, unsigned random)
{
	int some = 0;

	pthread_mutex_lock(&lock);
	if (lives) {
		int i = random % lives;

		*h = live[i];
		live[i] = live[--lives];
		given += h->bytes;
		some = 1;
	}
	pthread_mutex_unlock(&lock);
	return some;
}

/* Physical memory of a GPU (type 1), or elsewhere. */
static const int on_device[8] = { 1, 0, 1, 0 };

static int make(unsigned random, struct held *h)
{
	size_t pitch, bytes = 1 + random % (1 << 20);
	int n = 1;

	*h = (struct held){ .bytes = bytes };
	switch (random >> 20 & 15) {
	case 0: case 1: must(!fcuMemAlloc_v2(&h->at, bytes), "cuMemAlloc"); break;
	case 2: case 3: must(!alloc2(&h->at, bytes), "cuMemAlloc by its address"); break;
	case 4: must(!fcuMemAllocManaged(&h->at, bytes, 1), "cuMemAllocManaged"); break;
	case 5: case 6:
		must(!fcuMemAllocPitch_v2(&h->at, &pitch, 1 + bytes % 4096, 1 + bytes % 100, 4), "cuMemAllocPitch");
		h->bytes = pitch * (1 + bytes % 100);
		break;
	case 7: must(!fcuMemAllocAsync(&h->at, bytes, NULL), "cuMemAllocAsync"), h->what = STREAM; break;
	case 8: must(!async2(&h->at, bytes, NULL), "cuMemAllocAsync by its address"), h->what = STREAM; break;
	case 9: must(!fcuMemAllocFromPoolAsync(&h->at, bytes, NULL, NULL), "cuMemAllocFromPoolAsync"), h->what = STREAM; break;
	case 10: /* fails: nothing is to be counted */
		must(fcuMemAlloc_v2(&h->at, 1ULL << 40) != 0, "too much");
		return -1;
	case 11: case 12: must(!fcuMemCreate(&h->handle, bytes, on_device, 0), "cuMemCreate"), h->what = CHUNK; break;
	default:
		must(!fcuMemCreate(&h->handle, bytes, on_device, 0), "cuMemCreate");
		must(!fcuMemAddressReserve(&h->at, bytes, 0, 0, 0), "cuMemAddressReserve");
		must(!fcuMemMap(h->at, bytes, 0, h->handle, 0), "cuMemMap");
		h->what = MAPPED, n = 3;
		if (random & 1) { /* the memory lives on by its mapping */
			must(!fcuMemRelease(h->handle), "cuMemRelease");
			h->handle = 0, n = 4;
		}
	}
	return n;
}

static int end(const struct held *h, unsigned random)
{
	switch (h->what) {
	case LINEAR:
		must(!(random & 1 ? free2(h->at) : fcuMemFree_v2(h->at)), "cuMemFree");
		return 1;
	case STREAM:
		must(!(random & 1 ? fcuMemFreeAsync(h->at, NULL) : fcuMemFreeAsync_ptsz(h->at, NULL)), "cuMemFreeAsync");
		return 1;
	case CHUNK:
		must(!fcuMemRelease(h->handle), "cuMemRelease");
		return 1;
	default:
		if (h->handle && random & 2)
			must(!fcuMemRelease(h->handle), "cuMemRelease");
		must(!fcuMemUnmap(h->at, h->bytes), "cuMemUnmap");
		must(!fcuMemAddressFree(h->at, h->bytes), "cuMemAddressFree");
		if (h->handle && !(random & 2))
			must(!fcuMemRelease(h->handle), "cuMemRelease");
		return h->handle ? 3 : 2;
	}
}

struct work {
	int calls;
	unsigned seed;
};

static void *random_calls(void *with)
{
	struct work *w = with;
	uint64_t x = w->seed * 0x9e3779b97f4a7c15ULL + 1;
	int done = 0;

	while (done < w->calls) {
		struct held h;
		unsigned random;
		int n;

		x ^= x << 13, x ^= x >> 7, x ^= x << 17;
		random = x >> 20;
		if (x & 1 && pick(&h, random)) {
			done += end(&h, random);
			continue;
		}
		if ((n = make(random, &h)) > 0 && !put(h)) {
			pthread_mutex_lock(&lock);
			allocated += h.bytes, given += h.bytes;
			pthread_mutex_unlock(&lock);
			n += end(&h, random);
		}
		done += n < 0 ? 0 : n;
	}
	__atomic_fetch_add(&calls, done, __ATOMIC_RELAXED);
	return NULL;
}

static void random_threads(int n, int threads, unsigned seed)
{
	pthread_t all[64];
	struct work w[64];

	for (int i = 0; i < threads; i++) {
		w[i] = (struct work){ n / threads, seed + i };
		must(!pthread_create(&all[i], NULL, random_calls, &w[i]), "no thread");
	}
	for (int i = 0; i < threads; i++)
		pthread_join(all[i], NULL);
}

static void print(const struct shared *h)
{
	for (int i = 0; i < 64; i++)
		printf("%02x", h->bytes[i]);
	printf(" ");
}

static void read_handle(struct shared *h, const char *text)
{
	for (int i = 0; i < 64; i++)
		sscanf(text + 2 * i, "%2hhx", &h->bytes[i]);
}

/* How memory is lent: by descriptor, or by a handle of fabric. */
enum { DESCRIPTOR = 1, FABRIC = 8 };

static int share(address handle)
{
	int fd;

	must(!fcuMemExportToShareableHandle(&fd, handle, DESCRIPTOR, 0), "cuMemExportToShareableHandle");
	return fd;
}

static address import(void *shared, int type)
{
	address handle;

	must(!fcuMemImportFromShareableHandle(&handle, shared, type), "cuMemImportFromShareableHandle");
	return handle;
}

static void *of_descriptor(address fd) { return (void *)(uintptr_t)fd; }

/* What is lent and imported again, so many times; its open file is gone each time. */
static void share_again(int n)
{
	for (; n > 0; n--) {
		address handle;
		int fd;

		must(!fcuMemCreate(&handle, 4096, on_device, 0), "cuMemCreate");
		fd = share(handle);
		must(!fcuMemRelease(import(of_descriptor(fd), DESCRIPTOR)), "cuMemRelease");
		must(!fcuMemRelease(handle), "cuMemRelease");
		close(fd);
	}
}

/* Another process's open file, under a descriptor of this. */
static int take(int pid, int fd)
{
	int process = syscall(SYS_pidfd_open, pid, 0);

	fd = syscall(SYS_pidfd_getfd, process, fd, 0);
	close(process);
	must(fd >= 0, "pidfd_getfd");
	return fd;
}

static int lending(const char *line)
{
	unsigned long long a = 0, b = 0;
	struct shared h;
	char text[160];

	if (sscanf(line, "create %llu", &a) == 1)
		must(!fcuMemCreate(&b, a, on_device, 0), "cuMemCreate"), printf("%llu ", b);
	else if (sscanf(line, "share %llu", &a) == 1)
		printf("%d ", share(a));
	else if (sscanf(line, "share-again %llu", &a) == 1)
		share_again(a);
	else if (sscanf(line, "share-pool %llu", &a) == 1)
		must(!fcuMemPoolExportToShareableHandle(&b, a, DESCRIPTOR, 0), "cuMemPoolExportToShareableHandle"), printf("%d ", (int)b);
	else if (sscanf(line, "share-fabric %llu", &a) == 1)
		must(!fcuMemExportToShareableHandle(&h, a, FABRIC, 0), "cuMemExportToShareableHandle"), print(&h);
	else if (sscanf(line, "take %llu %llu", &a, &b) == 2)
		printf("%d ", take(a, b));
	else if (sscanf(line, "shut %llu", &a) == 1)
		close(a);
	else if (sscanf(line, "import %llu", &a) == 1)
		printf("%llu ", import(of_descriptor(a), DESCRIPTOR));
	else if (sscanf(line, "import-pool %llu", &a) == 1)
		must(!fcuMemPoolImportFromShareableHandle(&b, of_descriptor(a), DESCRIPTOR, 0), "cuMemPoolImportFromShareableHandle"), printf("%llu ", b);
	else if (sscanf(line, "import-fabric %128s", text) == 1)
		read_handle(&h, text), printf("%llu ", import(&h, FABRIC));
	else
		return 0;
	return 1;
}

static int copying(const char *line)
{
	unsigned long long to = 0, from = 0, bytes = 0;

	if (sscanf(line, "copies %llu", &bytes) == 1) /* so many, as an engine makes them */
		for (; bytes > 0; bytes--)
			must(!fcuMemcpyDtoD_v2(1 << 20, 2 << 20, 4096), "cuMemcpyDtoD");
	else if (sscanf(line, "copy %llu %llu %llu", &to, &from, &bytes) == 3)
		must(!fcuMemcpyDtoD_v2(to, from, bytes), "cuMemcpyDtoD");
	else if (sscanf(line, "copy-async %llu %llu %llu", &to, &from, &bytes) == 3)
		must(!fcuMemcpyDtoDAsync_v2(to, from, bytes, NULL), "cuMemcpyDtoDAsync");
	else if (sscanf(line, "copy-in %llu %llu %llu", &to, &from, &bytes) == 3)
		must(!fcuMemcpyHtoDAsync_v2(to, (void *)(uintptr_t)from, bytes, NULL), "cuMemcpyHtoDAsync");
	else if (sscanf(line, "copy-peer %llu %llu %llu", &to, &from, &bytes) == 3)
		must(!fcuMemcpyPeerAsync(to, &lives, from, &calls, bytes, NULL), "cuMemcpyPeerAsync");
	else if (!strncmp(line, "copy-2d", 7))
		must(!fcuMemcpy2D_v2(&lives), "cuMemcpy2D");
	else if (!strncmp(line, "copy-wrong", 10))
		must(fcuMemcpyDtoD_v2(1, 1, 0) != 0, "cuMemcpyDtoD of nothing");
	else
		return 0;
	return 1;
}

static int command(const char *line)
{
	unsigned long long a = 0, b = 0;
	struct shared h;
	int n = 0, threads = 0;
	unsigned old;
	void *context;
	char text[160];

	if (!strncmp(line, "load", 4))
		load();
	else if (sscanf(line, "random %d %d %u", &n, &threads, &old) == 3)
		random_threads(n, threads, old);
	else if (!strncmp(line, "books", 5))
		printf("%llu %llu %llu ", (address)calls, (address)allocated, (address)given);
	else if (sscanf(line, "alloc %llu", &a) == 1)
		must(!fcuMemAlloc_v2(&b, a), "cuMemAlloc"), printf("%llu ", b);
	else if (sscanf(line, "free %llu", &a) == 1)
		must(!fcuMemFree_v2(a), "cuMemFree");
	else if (sscanf(line, "lend %llu", &a) == 1)
		must(!fcuIpcGetMemHandle(&h, a), "cuIpcGetMemHandle"), print(&h);
	else if (sscanf(line, "open %128s", text) == 1)
		read_handle(&h, text), must(!fcuIpcOpenMemHandle_v2(&a, h, 1), "cuIpcOpenMemHandle"), printf("%llu ", a);
	else if (sscanf(line, "close %llu", &a) == 1)
		must(!fcuIpcCloseMemHandle(a), "cuIpcCloseMemHandle");
	else if (sscanf(line, "map %llu %llu", &a, &b) == 2) { /* so many pieces of so many bytes */
		address at, handle;

		must(!fcuMemAddressReserve(&at, a * b, 0, 0, 0), "cuMemAddressReserve");
		for (address i = 0; i < a; i++) {
			must(!fcuMemCreate(&handle, b, on_device, 0), "cuMemCreate");
			must(!fcuMemMap(at + i * b, b, 0, handle, 0), "cuMemMap");
			must(!fcuMemRelease(handle), "cuMemRelease");
			fstub_retain(handle);
		}
		printf("%llu ", at);
	} else if (sscanf(line, "retain %llu", &a) == 1)
		must(!fcuMemRetainAllocationHandle(&b, (void *)(uintptr_t)a), "cuMemRetainAllocationHandle"), printf("%llu ", b);
	else if (sscanf(line, "release %llu", &a) == 1)
		must(!fcuMemRelease(a), "cuMemRelease");
	else if (sscanf(line, "unmap %llu %llu", &a, &b) == 2)
		must(!fcuMemUnmap(a, b), "cuMemUnmap");
	else if (!strncmp(line, "old", 3))
		must(!fcuMemAlloc(&old, 4096), "cuMemAlloc of 2010");
	else if (!strncmp(line, "retained", 8))
		must(!fcuDevicePrimaryCtxRetain(&context, 0), "cuDevicePrimaryCtxRetain");
	else if (!strncmp(line, "released", 8))
		must(!fcuDevicePrimaryCtxRelease_v2(0), "cuDevicePrimaryCtxRelease");
	else if (!strncmp(line, "destroy", 7))
		must(!fcuCtxDestroy_v2(&lives), "cuCtxDestroy");
	else
		return lending(line) || copying(line);
	return 1;
}

int main(void)
{
	char line[256];

	setvbuf(stdout, NULL, _IOLBF, 0);
	printf("ready\n");
	while (fgets(line, sizeof(line), stdin))
		printf("%s\n", command(line) ? "done" : "what?");
	return 0;
}
