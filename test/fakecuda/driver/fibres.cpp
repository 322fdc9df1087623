// Runs the blocks of a kernel one after the other, the threads of a block as fibres.
// A barrier that not all threads reach ends the process: on a GPU it would hang, or
// worse, not.
#undef _FORTIFY_SOURCE
#include "fibres.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <ucontext.h>

enum At { READY, IN_WARP_BARRIER, IN_BLOCK_BARRIER, ENDED };

struct Fibre {
	jmp_buf resume;
	At at;
	u32 turn; // of the warp's exchange
};

static const u32 max_threads = 1024, stack_bytes = 64 << 10;
static Fibre fibres[max_threads];
static u32 started; // fibres that exist, waiting for work
static jmp_buf scheduler;
static Kernel kernel;
static const void *arguments;
Running running;

static void yield(At at) {
	Fibre &f = fibres[running.thread];
	f.at = at;
	if (_setjmp(f.resume) == 0) _longjmp(scheduler, 1);
}

static void live() {
	for (;;) {
		yield(ENDED);
		kernel(arguments);
	}
}

// A new fibre runs to its first yield.
static void start(u32 i) {
	static ucontext_t unused, context;
	getcontext(&context);
	context.uc_stack.ss_sp = malloc(stack_bytes);
	context.uc_stack.ss_size = stack_bytes;
	context.uc_link = nullptr;
	makecontext(&context, live, 0);
	running.thread = i;
	if (_setjmp(scheduler) == 0) swapcontext(&unused, &context);
}

static void resume(u32 i) {
	running.thread = i;
	if (_setjmp(scheduler) == 0) _longjmp(fibres[i].resume, 1);
}

// together says where all of some threads are; they must be at the same place.
static At together(u32 first, u32 count) {
	for (u32 i = first; i < first + count; i++) {
		if (fibres[i].at == fibres[first].at) continue;
		fprintf(stderr, "fakecuda: threads %u and %u of a block wait for different barriers\n", first, i);
		abort();
	}
	return fibres[first].at;
}

static void release(u32 first, u32 count) {
	for (u32 i = first; i < first + count; i++) fibres[i].at = READY;
}

// Runs a warp until its threads wait for the block, or end.
static void run_warp(u32 first, u32 count) {
	for (;;) {
		for (u32 i = first; i < first + count; i++) resume(i);
		if (together(first, count) != IN_WARP_BARRIER) return;
		release(first, count);
	}
}

static void run_block(u32 threads) {
	do {
		release(0, threads);
		for (u32 first = 0; first < threads; first += WARP) run_warp(first, threads - first < WARP ? threads - first : WARP);
	} while (together(0, threads) != ENDED);
}

bool launch(Kernel k, const void *args, Grid grid, u32 threads) {
	if (threads == 0 || threads > max_threads) return false;
	kernel = k;
	arguments = args;
	while (started < threads) start(started++);
	running.block_threads = threads;
	running.y_blocks = grid.y;
	running.z_blocks = grid.z;
	for (running.z = 0; running.z < grid.z; running.z++)
		for (running.y = 0; running.y < grid.y; running.y++)
			for (running.x = 0; running.x < grid.x; running.x++) run_block(threads);
	return true;
}

void sync_block() { yield(IN_BLOCK_BARRIER); }
void sync_warp() { yield(IN_WARP_BARRIER); }

// What the lanes of the running warp give one another. Only one warp runs between
// two barriers, but a lane may be an exchange ahead of another: hence two.
static float given[2][WARP], result[2];
static u64 word[2];

template <typename F> static float fold(float x, F both) {
	u32 turn = fibres[running.thread].turn++ % 2, lane = running.thread % WARP;
	given[turn][lane] = x;
	sync_warp();
	if (lane == 0) {
		result[turn] = given[turn][0];
		for (u32 i = 1; i < WARP; i++) result[turn] = both(result[turn], given[turn][i]);
	}
	sync_warp();
	return result[turn];
}

float warp_max(float x) { return fold(x, [](float a, float b) { return __builtin_fmaxf(a, b); }); }
float warp_sum(float x) { return fold(x, [](float a, float b) { return a + b; }); }

u64 first_lane(u64 x) {
	u32 turn = fibres[running.thread].turn++ % 2;
	if (running.thread % WARP == 0) word[turn] = x;
	sync_warp();
	return word[turn];
}
