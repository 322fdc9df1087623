/*
 * A stand-in for NVIDIA's libnvidia-ml.so.1, for tests: it has the functions that
 * kvwitness-nvml asks, and answers what the file says that MOCK_NVML_SCRIPT names,
 * which is read anew at each call:
 *
 *   driver VERSION
 *   confidential 0|1
 *   gpu UUID TOTAL USED                    in the order of their indices
 *   mig GPU-UUID UUID TOTAL USED
 *   process UUID compute|graphics|mps PID BYTES     -1: blank
 *   ecc UUID CORRECTED UNCORRECTED
 *   xid UUID CODE COUNT                    told once each, in all
 *   fail CALL CODE [UUID]                  the call returns that
 *   blank CALL [UUID]                      it succeeds and answers nothing
 *   hang CALL [UUID]
 *   crash CALL [UUID]
 *
 * The types are those of the public interface of NVML, written down here as far as
 * they are needed.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef unsigned long long u64;
typedef int ret;
typedef struct gpu *handle;

enum { ok = 0, uninitialized = 1, invalid = 2, unsupported = 3, absent = 6, small = 7, timeout = 10, unknown = 999 };
enum { max_gpus = 256, max_lines = 4096, max_word = 100 };

struct gpu {
	char uuid[max_word], parent[max_word];
	u64 total, used, corrected, uncorrected;
	int there;
};

struct process { unsigned pid; u64 bytes; unsigned gi, ci; };
struct process_v1 { unsigned pid; u64 bytes; };
struct memory { u64 total, free, used; };
struct event { handle device; u64 type, data; unsigned gi, ci; };
struct confidential { unsigned environment, feature, devtools; };

/* A handle stays what it is while the process lives, as the driver's does. */
static struct gpu gpus[max_gpus];
static int ngpus;
static char lines[max_lines][256];
static int nlines;
static int begun;
static struct { char uuid[max_word]; u64 code, told; } told[64];
static int ntold;

static struct gpu *find(const char *uuid)
{
	for (int i = 0; i < ngpus; i++)
		if (!strcmp(gpus[i].uuid, uuid))
			return &gpus[i];
	if (ngpus == max_gpus)
		abort();
	strcpy(gpus[ngpus].uuid, uuid);
	return &gpus[ngpus++];
}

static void read_script(void)
{
	const char *path = getenv("MOCK_NVML_SCRIPT");
	FILE *in = path ? fopen(path, "r") : NULL;
	nlines = 0;
	for (int i = 0; i < ngpus; i++)
		gpus[i].there = 0;
	if (!in)
		return;
	while (nlines < max_lines && fgets(lines[nlines], sizeof lines[0], in)) {
		char uuid[max_word], parent[max_word] = "";
		u64 total, used;
		if (sscanf(lines[nlines], "gpu %99s %llu %llu", uuid, &total, &used) == 3 ||
		    sscanf(lines[nlines], "mig %99s %99s %llu %llu", parent, uuid, &total, &used) == 4) {
			struct gpu *g = find(uuid);
			strcpy(g->parent, parent);
			g->total = total, g->used = used, g->there = 1;
		}
		if (sscanf(lines[nlines], "ecc %99s %llu %llu", uuid, &total, &used) == 3)
			find(uuid)->corrected = total, find(uuid)->uncorrected = used;
		nlines++;
	}
	fclose(in);
}

static int said(const char *what, const char *call, handle g, char *rest)
{
	for (int i = 0; i < nlines; i++) {
		char verb[16], name[max_word], third[max_word] = "", fourth[max_word] = "";
		if (sscanf(lines[i], "%15s %99s %99s %99s", verb, name, third, fourth) < 2 || strcmp(verb, what) || strcmp(name, call))
			continue;
		const char *uuid = rest ? fourth : third;
		if (*uuid && (!g || strcmp(uuid, g->uuid)))
			continue;
		if (rest)
			strcpy(rest, third);
		return 1;
	}
	return 0;
}

/* enter is the beginning of each call. */
static ret enter(const char *call, handle g)
{
	char code[max_word];
	read_script();
	if (said("crash", call, g, NULL))
		abort();
	if (said("hang", call, g, NULL))
		for (;;)
			sleep(60);
	if (said("fail", call, g, code))
		return atoi(code);
	if (!begun && strcmp(call, "nvmlInit"))
		abort(); /* as the driver's library may, once it could not be initialised */
	return g && !g->there ? 15 : ok;
}

#define ENTER(call, g) do { ret r_ = enter(call, g); if (r_) return r_; } while (0)
#define IS_BLANK(call, g) said("blank", call, g, NULL)

ret nvmlInit_v2(void)
{
	ENTER("nvmlInit", NULL);
	begun = 1;
	return ok;
}
ret nvmlInit(void) { return nvmlInit_v2(); }

ret nvmlShutdown(void) { ENTER("nvmlShutdown", NULL); return ok; }

const char *nvmlErrorString(ret r) { (void)r; return "a stand-in's error"; }

ret nvmlSystemGetDriverVersion(char *into, unsigned n)
{
	char version[max_word] = "550.54.15";
	ENTER("nvmlSystemGetDriverVersion", NULL);
	for (int i = 0; i < nlines; i++)
		sscanf(lines[i], "driver %99s", version);
	snprintf(into, n, "%s", version);
	return ok;
}

ret nvmlSystemGetConfComputeState(struct confidential *c)
{
	ENTER("nvmlSystemGetConfComputeState", NULL);
	memset(c, 0, sizeof *c);
	for (int i = 0; i < nlines; i++)
		sscanf(lines[i], "confidential %u", &c->feature);
	return ok;
}

ret nvmlDeviceGetCount_v2(unsigned *n)
{
	ENTER("nvmlDeviceGetCount", NULL);
	*n = 0;
	for (int i = 0; i < ngpus; i++)
		*n += gpus[i].there && !*gpus[i].parent;
	return ok;
}
ret nvmlDeviceGetCount(unsigned *n) { return nvmlDeviceGetCount_v2(n); }

ret nvmlDeviceGetHandleByIndex_v2(unsigned index, handle *into)
{
	ENTER("nvmlDeviceGetHandleByIndex", NULL);
	for (int i = 0; i < ngpus; i++)
		if (gpus[i].there && !*gpus[i].parent && !index--) {
			*into = &gpus[i];
			return said("fail", "handle", *into, NULL) ? 15 : ok;
		}
	return invalid;
}
ret nvmlDeviceGetHandleByIndex(unsigned index, handle *into) { return nvmlDeviceGetHandleByIndex_v2(index, into); }

ret nvmlDeviceGetUUID(handle g, char *into, unsigned n)
{
	ENTER("nvmlDeviceGetUUID", g);
	snprintf(into, n, "%s", IS_BLANK("nvmlDeviceGetUUID", g) ? "" : g->uuid);
	return ok;
}

ret nvmlDeviceGetName(handle g, char *into, unsigned n)
{
	ENTER("nvmlDeviceGetName", g);
	snprintf(into, n, "%s", "Stand-in GPU");
	return ok;
}

ret nvmlDeviceGetMemoryInfo(handle g, struct memory *m)
{
	ENTER("nvmlDeviceGetMemoryInfo", g);
	*m = (struct memory){g->total, g->total - g->used, g->used};
	if (IS_BLANK("nvmlDeviceGetMemoryInfo", g))
		*m = (struct memory){0, 0, 0};
	return ok;
}

ret nvmlDeviceGetBAR1MemoryInfo(handle g, struct memory *m)
{
	ENTER("nvmlDeviceGetBAR1MemoryInfo", g);
	*m = (struct memory){1 << 28, 1 << 27, 1 << 27};
	if (IS_BLANK("nvmlDeviceGetBAR1MemoryInfo", g))
		*m = (struct memory){-1, -1, -1};
	return ok;
}

ret nvmlDeviceGetTotalEccErrors(handle g, int kind, int since, u64 *n)
{
	(void)since;
	ENTER("nvmlDeviceGetTotalEccErrors", g);
	*n = IS_BLANK("nvmlDeviceGetTotalEccErrors", g) ? -1ull : kind ? g->uncorrected : g->corrected;
	return ok;
}

static int instances(handle g)
{
	int n = 0;
	for (int i = 0; i < ngpus; i++)
		n += gpus[i].there && !strcmp(gpus[i].parent, g->uuid);
	return n;
}

ret nvmlDeviceGetMigMode(handle g, unsigned *now, unsigned *later)
{
	ENTER("nvmlDeviceGetMigMode", g);
	*now = *later = instances(g) > 0;
	return ok;
}

ret nvmlDeviceGetMaxMigDeviceCount(handle g, unsigned *n)
{
	ENTER("nvmlDeviceGetMaxMigDeviceCount", g);
	*n = 7;
	return ok;
}

ret nvmlDeviceGetMigDeviceHandleByIndex(handle g, unsigned index, handle *into)
{
	ENTER("nvmlDeviceGetMigDeviceHandleByIndex", g);
	for (int i = 0; i < ngpus; i++)
		if (gpus[i].there && !strcmp(gpus[i].parent, g->uuid) && !index--) {
			*into = &gpus[i];
			return ok;
		}
	return absent;
}

static ret list(const char *call, const char *which, handle g, unsigned *n, void *into, size_t each)
{
	unsigned found = 0;
	ENTER(call, g);
	if (IS_BLANK(call, g)) {
		*n = 0;
		return ok;
	}
	for (int i = 0; i < nlines; i++) {
		char uuid[max_word], name[max_word];
		unsigned pid;
		long long bytes;
		if (sscanf(lines[i], "process %99s %99s %u %lld", uuid, name, &pid, &bytes) != 4 || strcmp(uuid, g->uuid) || strcmp(name, which))
			continue;
		if (found < *n) {
			struct process p = {pid, bytes, -1, -1};
			memcpy((char *)into + found * each, &p, each);
		}
		found++;
	}
	ret r = found > *n ? small : ok;
	*n = found;
	return r;
}

#define LISTS(name, which) \
	ret name(handle g, unsigned *n, struct process_v1 *into) { return list(#name, which, g, n, into, sizeof *into); } \
	ret name##_v2(handle g, unsigned *n, struct process *into) { return list(#name, which, g, n, into, sizeof *into); } \
	ret name##_v3(handle g, unsigned *n, struct process *into) { return list(#name, which, g, n, into, sizeof *into); }

LISTS(nvmlDeviceGetComputeRunningProcesses, "compute")
LISTS(nvmlDeviceGetGraphicsRunningProcesses, "graphics")
LISTS(nvmlDeviceGetMPSComputeRunningProcesses, "mps")

ret nvmlEventSetCreate(void **set) { ENTER("nvmlEventSetCreate", NULL); *set = gpus; return ok; }
ret nvmlEventSetFree(void *set) { (void)set; return ok; }
ret nvmlDeviceRegisterEvents(handle g, u64 types, void *set) { (void)types; (void)set; ENTER("nvmlDeviceRegisterEvents", g); return ok; }

ret nvmlEventSetWait_v2(void *set, struct event *e, unsigned ms)
{
	(void)set;
	ENTER("nvmlEventSetWait", NULL);
	for (int i = 0; i < nlines; i++) {
		char uuid[max_word];
		u64 code, count;
		int at = 0;
		if (sscanf(lines[i], "xid %99s %llu %llu", uuid, &code, &count) != 3)
			continue;
		while (at < ntold && (strcmp(told[at].uuid, uuid) || told[at].code != code))
			at++;
		if (at == ntold) {
			strcpy(told[at].uuid, uuid);
			told[at].code = code;
			ntold++;
		}
		if (told[at].told < count) {
			told[at].told++;
			*e = (struct event){find(uuid), 8, code, -1, -1};
			return ok;
		}
	}
	usleep(ms * 1000);
	return timeout;
}
ret nvmlEventSetWait(void *set, struct event *e, unsigned ms) { return nvmlEventSetWait_v2(set, e, ms); }
