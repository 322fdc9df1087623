/*
 * Holds memory of a GPU: holder BYTES [GPU]. It loads the driver as any program does,
 * allocates, fills the memory, says "ready", and waits for the end of its input.
 * The declarations are those of the driver's public interface, as far as they are
 * needed; it is built without CUDA.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

typedef int result;

static void *driver;

static void *function(const char *name)
{
	void *f = dlsym(driver, name);
	if (!f) {
		fprintf(stderr, "holder: the driver has no %s\n", name);
		exit(1);
	}
	return f;
}

static void check(result r, const char *call)
{
	if (r) {
		fprintf(stderr, "holder: %s: error %d\n", call, r);
		exit(1);
	}
}

int main(int argc, char **argv)
{
	unsigned long long address = 0;
	size_t bytes = argc > 1 ? strtoull(argv[1], NULL, 10) : 0;
	int device = 0, gpu = argc > 2 ? atoi(argv[2]) : 0;
	void *context = NULL;
	if (!bytes || !(driver = dlopen("libcuda.so.1", RTLD_NOW))) {
		fprintf(stderr, "holder: %s\n", bytes ? dlerror() : "holder BYTES [GPU]");
		return 1;
	}
	result (*init)(unsigned) = (result (*)(unsigned))function("cuInit");
	result (*get)(int *, int) = (result (*)(int *, int))function("cuDeviceGet");
	result (*retain)(void **, int) = (result (*)(void **, int))function("cuDevicePrimaryCtxRetain");
	result (*current)(void *) = (result (*)(void *))function("cuCtxSetCurrent");
	result (*alloc)(unsigned long long *, size_t) = (result (*)(unsigned long long *, size_t))function("cuMemAlloc_v2");
	result (*fill)(unsigned long long, unsigned char, size_t) = (result (*)(unsigned long long, unsigned char, size_t))function("cuMemsetD8_v2");
	check(init(0), "cuInit");
	check(get(&device, gpu), "cuDeviceGet");
	check(retain(&context, device), "cuDevicePrimaryCtxRetain");
	check(current(context), "cuCtxSetCurrent");
	check(alloc(&address, bytes), "cuMemAlloc");
	check(fill(address, 1, bytes), "cuMemsetD8");
	puts("ready");
	fflush(stdout);
	while (getchar() != EOF)
		;
	return 0;
}
