/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* What the programs share: the maps, the head of a record, scratch memory, and
 * calls whose result is needed. */
#pragma once
#include "kernel.h"
#include "targets.h"
#include "verbs.h"

const volatile u8 have_loop = 1; /* from Linux 5.17 */

static long (*loop)(u32 turns, void *each, void *with, u64 flags) = (void *)181;
static u64 (*attach_cookie)(void *ctx) = (void *)174; /* from Linux 5.15 */

struct {
	UINT(type, MAP_RINGBUF);
	UINT(max_entries, 8 << 20);
} ring SEC(".maps");

enum counter {
	RECORDS_SENT = 0,
	RECORDS_LOST, /* no room in the ring */
	LOST_BUSY, /* every scratch of this CPU was in use */
	LOST_CALLS, /* a call was not remembered until its return */
	LOST_OBJECTS, /* of RECORDS_LOST: about contexts, queue pairs, registrations */
	COUNT_CALLS, /* post_send calls that were followed */
	COUNT_REQUESTS,
	NUM_COUNTERS,
};

struct {
	UINT(type, MAP_PERCPU_ARRAY);
	UINT(max_entries, NUM_COUNTERS);
	TYPE(key, u32);
	TYPE(value, u64);
} counters SEC(".maps");

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

/* Calls whose result is needed, by thread. */
struct call {
	u64 a, b, c, d;
};

struct {
	UINT(type, MAP_LRU_HASH);
	UINT(max_entries, 4096);
	TYPE(key, u64); /* pid_tgid */
	TYPE(value, struct call);
} calls SEC(".maps");

INLINE void count(u32 which, u64 n)
{
	u64 *c = map_lookup(&counters, &which);

	if (c)
		*c += n;
}

INLINE int is_watched(void)
{
	u32 tgid = current_pid_tgid() >> 32;

	return map_lookup(&targets, &tgid) != 0;
}

INLINE void begin(struct head *h, u16 kind)
{
	u64 id = current_pid_tgid();

	h->time = ktime_ns();
	h->tgid = id >> 32;
	h->tid = (u32)id;
	h->kind = kind;
	h->flags = 0;
	h->n = 0;
}

INLINE void send(void *record, u64 size)
{
	/* Waking the reader would cost more than all the rest: it looks by the
	 * clock. */
	struct head *h = record;

	if (!ringbuf_output(&ring, record, size, NO_WAKEUP)) {
		count(RECORDS_SENT, 1);
		return;
	}
	count(RECORDS_LOST, 1);
	if (h->kind != KIND_POSTED && h->kind != KIND_COMPLETED)
		count(LOST_OBJECTS, 1);
}

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

INLINE void remember(u64 a, u64 b, u64 c, u64 d)
{
	u64 id = current_pid_tgid();
	struct call call = { a, b, c, d };

	if (map_update(&calls, &id, &call, ANY))
		count(LOST_CALLS, 1);
}

INLINE int recall(struct call *out)
{
	u64 id = current_pid_tgid();
	struct call *c = map_lookup(&calls, &id);

	if (!c)
		return 0;
	*out = *c;
	map_delete(&calls, &id);
	return 1;
}
