/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* Workers, endpoints, registrations, and ways around puts and gets. */
#pragma once
#include "common.h"

/* keep remembers three arguments of a call whose result is needed. */
SEC("uprobe")
int keep(struct pt_regs *ctx)
{
	u64 first = ctx->di;
	u64 second = ctx->si;
	u64 third = ctx->dx;

	if (is_watched())
		remember(ctx, first, second, third, 0);
	return 0;
}

INLINE int succeeded(struct pt_regs *ctx, struct call *call)
{
	int status = (int)ctx->ax;

	return recall(ctx, call) && !status;
}

INLINE void read_id(struct head *h, u8 *id, u64 address)
{
	if (read_user(id, ID_BYTES, (void *)address))
		h->flags |= UNREADABLE;
}

INLINE int say_worker(u64 worker, u64 address)
{
	struct worker w = {};

	begin(&w.head, KIND_WORKER);
	w.worker = worker;
	read_id(&w.head, w.id, address);
	send(&w, sizeof(w));
	return 0;
}

/* ucp_worker_get_address(worker, &address, &length) */
SEC("uretprobe")
int got_address(struct pt_regs *ctx)
{
	struct call call;

	return succeeded(ctx, &call) ? say_worker(call.a, FIELD(u64, call.b, 0)) : 0;
}

#define WORKER_MASK 0 /* struct ucp_worker_attr */
#define WORKER_ADDRESS 16
#define WITH_ADDRESS (1 << 1)

/* ucp_worker_query(worker, attr) */
SEC("uretprobe")
int queried(struct pt_regs *ctx)
{
	struct call call;

	if (!succeeded(ctx, &call) || !(FIELD(u64, call.b, WORKER_MASK) & WITH_ADDRESS))
		return 0;
	return say_worker(call.a, FIELD(u64, call.b, WORKER_ADDRESS));
}

SEC("uprobe")
int destroy_worker(struct pt_regs *ctx)
{
	u64 worker = ctx->di;
	return say_about(worker, KIND_WORKER_GONE);
}

#define ENDPOINT_MASK 0 /* struct ucp_ep_params */
#define ENDPOINT_ADDRESS 8
#define WITH_REMOTE_ADDRESS (1 << 0)

/* ucp_ep_create(worker, params, &endpoint) */
SEC("uretprobe")
int made_endpoint(struct pt_regs *ctx)
{
	struct endpoint e = {};
	struct call call;

	if (!succeeded(ctx, &call))
		return 0;
	begin(&e.head, KIND_ENDPOINT);
	e.worker = call.a;
	e.endpoint = FIELD(u64, call.c, 0);
	e.by_address = FIELD(u64, call.b, ENDPOINT_MASK) & WITH_REMOTE_ADDRESS;
	if (e.by_address)
		read_id(&e.head, e.id, FIELD(u64, call.b, ENDPOINT_ADDRESS));
	send(&e, sizeof(e));
	return 0;
}

SEC("uprobe")
int close_endpoint(struct pt_regs *ctx)
{
	u64 endpoint = ctx->di;
	return say_about(endpoint, KIND_ENDPOINT_GONE);
}

#define MAP_MASK 0 /* struct ucp_mem_map_params */
#define MAP_ADDRESS 8
#define MAP_LENGTH 16
#define MAP_MEMORY 32
#define WITH_LENGTH (1 << 1)
#define WITH_MEMORY (1 << 4)

/* ucp_mem_map(context, params, &memh). Of memory that UCX allocates the address is
 * not among what it is told, and such a region is not told of. */
SEC("uretprobe")
int mapped(struct pt_regs *ctx)
{
	struct region r = {};
	struct call call;
	u64 mask;

	if (!succeeded(ctx, &call))
		return 0;
	begin(&r.head, KIND_REGION);
	mask = FIELD(u64, call.b, MAP_MASK);
	r.memh = FIELD(u64, call.c, 0);
	if (mask & 1)
		r.addr = FIELD(u64, call.b, MAP_ADDRESS);
	if (mask & WITH_LENGTH)
		r.bytes = FIELD(u64, call.b, MAP_LENGTH);
	r.known = (mask & WITH_MEMORY) != 0;
	r.memory = FIELD(u32, call.b, MAP_MEMORY);
	if (r.addr && r.bytes)
		send(&r, sizeof(r));
	return 0;
}

/* ucp_mem_unmap(context, memh) */
SEC("uprobe")
int unmap(struct pt_regs *ctx)
{
	u64 memh = ctx->si;
	return say_about(memh, KIND_REGION_GONE);
}

/* ucp_rkey_ptr hands out an address at which the other's memory can be written, and
 * ucp_device_* what a GPU needs to write by itself. */
SEC("uprobe")
int around(struct pt_regs *ctx)
{
	return say_about(0, KIND_BYPASS);
}
