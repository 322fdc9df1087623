/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* What the programs share: the maps, the head of a record, and scratch memory. */
#pragma once
#include "records.h"
#include "verbs.h"

const volatile u8 have_loop = 1; /* from Linux 5.17 */

static long (*loop)(u32 turns, void *each, void *with, u64 flags) = (void *)181;
static u64 (*attach_cookie)(void *ctx) = (void *)174; /* from Linux 5.15 */

enum counter {
	LOST_BUSY = NUM_COMMON_COUNTERS, /* every scratch of this CPU was in use */
	COUNT_CALLS, /* post_send calls that were followed */
	COUNT_REQUESTS,
	NUM_COUNTERS,
};

/* What is lost of these is said of its time only. */
#define PASSES(kind) ((kind) == KIND_POSTED || (kind) == KIND_COMPLETED)

#include "uprobe.h"

/* A uprobe may be preempted by another on its CPU: each takes a scratch of its
 * own, of a few. */
#define SCRATCHES 4

#define BULK 16 /* requests, and scatter entries, that are read at a time */
#define WR_SIZE 128
#define SGE_SIZE 16

struct scratch {
	u32 busy;
	u32 pad;
	u8 wrs[BULK * WR_SIZE];
	u8 sges[BULK * SGE_SIZE];
	union {
		struct posted posted;
		struct completed completed;
	};
};

struct {
	UINT(type, MAP_PERCPU_ARRAY);
	UINT(max_entries, SCRATCHES);
	TYPE(key, u32);
	TYPE(value, struct scratch);
} scratches SEC(".maps");

INLINE struct scratch *take(u32 *slot)
{
	for (u32 i = 0; i < SCRATCHES; i++) {
		u32 key = i;
		struct scratch *s = map_lookup(&scratches, &key);

		if (s && !__sync_lock_test_and_set(&s->busy, 1)) {
			*slot = i;
			return s;
		}
	}
	count(LOST_BUSY, 1);
	return 0;
}

INLINE void give(struct scratch *s)
{
	__sync_lock_test_and_set(&s->busy, 0);
}
