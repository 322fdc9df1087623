//go:build ignore

/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * A program was started somewhere on the node. What it says first says most, and
 * user space takes its time to decide whether it is one to be watched: until
 * then it is.
 */
#include "kernel.h"
#include "targets.h"

struct record {
	u64 t; /* ns, CLOCK_MONOTONIC */
	u32 tgid;
	u32 unused;
};

struct {
	UINT(type, MAP_RINGBUF);
	UINT(max_entries, 1 << 16);
} ring SEC(".maps");

enum counter { RECORDS_SENT = 0, RECORDS_LOST = 1, COUNTERS = 2 };

struct {
	UINT(type, MAP_PERCPU_ARRAY);
	UINT(max_entries, COUNTERS);
	TYPE(key, u32);
	TYPE(value, u64);
} counters SEC(".maps");

SEC("raw_tp/sched_process_exec")
int process_exec(void *ctx)
{
	struct record r = {};
	u64 *n, one = 1;
	u32 which;

	r.t = ktime_ns();
	r.tgid = current_pid_tgid() >> 32;
	which = ringbuf_output(&ring, &r, sizeof(r), NO_WAKEUP) ? RECORDS_LOST : RECORDS_SENT;
	n = map_lookup(&counters, &which);
	if (n)
		++*n;
	if (which == RECORDS_SENT)
		map_update(&targets, &r.tgid, &one, NOEXIST);
	return 0;
}

char terms[] SEC("license") = "GPL";
