/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * What programs on functions share: the ring, its counters, and calls whose result
 * is needed. Who includes it has defined NUM_COUNTERS, which are NUM_COMMON_COUNTERS
 * and its own, and PASSES(kind): a record is of something that does not last.
 */
#pragma once
#include "records.h"
#include "targets.h"

struct {
	UINT(type, MAP_RINGBUF);
	UINT(max_entries, 8 << 20);
} ring SEC(".maps");

struct {
	UINT(type, MAP_PERCPU_ARRAY);
	UINT(max_entries, NUM_COUNTERS);
	TYPE(key, u32);
	TYPE(value, u64);
} counters SEC(".maps");

/* A frame is one call of a function: a thread may be in several, one within the
 * other. */
struct frame {
	u64 thread; /* pid_tgid */
	u64 sp; /* where the call's return address stands */
};

struct call {
	u64 a, b, c, d;
};

struct {
	UINT(type, MAP_LRU_HASH);
	UINT(max_entries, 4096);
	TYPE(key, struct frame);
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
	if (!PASSES(h->kind))
		count(LOST_OBJECTS, 1);
}

INLINE int say_about(u64 what, u16 kind)
{
	struct about g = {};

	if (!is_watched())
		return 0;
	begin(&g.head, kind);
	g.what = what;
	send(&g, sizeof(g));
	return 0;
}

/* remember is for the beginning of a function, recall for its return. */
INLINE void remember(struct pt_regs *ctx, u64 a, u64 b, u64 c, u64 d)
{
	struct frame frame = { current_pid_tgid(), ctx->sp };
	struct call call = { a, b, c, d };

	if (map_update(&calls, &frame, &call, ANY))
		count(LOST_CALLS, 1);
}

INLINE int recall(struct pt_regs *ctx, struct call *out)
{
	struct frame frame = { current_pid_tgid(), ctx->sp - sizeof(u64) };
	struct call *c = map_lookup(&calls, &frame);

	if (!c)
		return 0;
	*out = *c;
	map_delete(&calls, &frame);
	return 1;
}
