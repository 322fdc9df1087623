/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* Puts and gets, and when they are over. ucp_put, ucp_put_nb and ucp_put_nbi call
 * ucp_put_nbx through the library's own table of calls, and so do those of get: each
 * is seen once. */
#pragma once
#include "common.h"

#define PARAM_MASK 0 /* struct ucp_request_param */
#define PARAM_DATATYPE 24
#define WITH_DATATYPE (1 << 3)
#define DATATYPE_BYTES (1 << 3) /* contiguous, of elements of one byte */

/* NOT_KNOWN is bytes of which the shape could not be read, LISTED of another shape
 * than contiguous bytes: UCX takes such or not, and some versions take the number
 * of elements for one of bytes. */
#define NOT_KNOWN (~0ULL)
#define LISTED (~0ULL - 1)

INLINE u64 bytes_of(u64 count, u64 param)
{
	u32 mask = 0;
	u64 datatype = 0;

	if (read_user(&mask, sizeof(mask), (void *)(param + PARAM_MASK)))
		return NOT_KNOWN;
	if (!(mask & WITH_DATATYPE))
		return count < LISTED ? count : LISTED;
	if (read_user(&datatype, sizeof(datatype), (void *)(param + PARAM_DATATYPE)))
		return NOT_KNOWN;
	return datatype == DATATYPE_BYTES && count < LISTED ? count : LISTED;
}

/* ucp_put_nbx(endpoint, buffer, count, remote_addr, rkey, param), and ucp_get_nbx. */
SEC("uprobe")
int move(struct pt_regs *ctx)
{
	u64 endpoint = ctx->di;
	u64 buffer = ctx->si;
	u64 count = ctx->dx;
	u64 remote = ctx->cx;
	u64 param = ctx->r9;

	if (is_watched())
		remember(ctx, endpoint, buffer, remote, bytes_of(count, param));
	return 0;
}

INLINE int moved(struct pt_regs *ctx, u32 op)
{
	struct moved m = {};
	struct call call;

	if (!recall(ctx, &call) || !call.d)
		return 0;
	begin(&m.head, KIND_MOVED);
	m.endpoint = call.a;
	m.local = call.b;
	m.remote = call.c;
	m.bytes = call.d;
	if (call.d >= LISTED) {
		m.head.flags = call.d == LISTED ? TRUNCATED : UNREADABLE;
		m.bytes = 0;
	}
	m.returned = ctx->ax;
	m.op = op;
	send(&m, sizeof(m));
	return 0;
}

SEC("uretprobe")
int put(struct pt_regs *ctx)
{
	return moved(ctx, OP_PUT);
}

SEC("uretprobe")
int get(struct pt_regs *ctx)
{
	return moved(ctx, OP_GET);
}

/* ucp_ep_flush_nbx(endpoint, param), ucp_worker_flush_nbx(worker, param), and the
 * two that wait, which call neither. */
SEC("uprobe")
int flush(struct pt_regs *ctx)
{
	u64 what = ctx->di;

	if (is_watched())
		remember(ctx, what, 0, 0, 0);
	return 0;
}

INLINE int flushed(struct pt_regs *ctx, u64 returned, u32 of_worker)
{
	struct flushed f = {};
	struct call call;

	if (!recall(ctx, &call))
		return 0;
	begin(&f.head, KIND_FLUSHED);
	f.what = call.a;
	f.returned = returned;
	f.of_worker = of_worker;
	send(&f, sizeof(f));
	return 0;
}

SEC("uretprobe")
int flushed_endpoint(struct pt_regs *ctx)
{
	return flushed(ctx, ctx->ax, 0);
}

SEC("uretprobe")
int flushed_worker(struct pt_regs *ctx)
{
	return flushed(ctx, ctx->ax, 1);
}

/* The two that wait return a status, of 32 bits. */
SEC("uretprobe")
int waited_endpoint(struct pt_regs *ctx)
{
	return flushed(ctx, (s64)(int)ctx->ax, 0);
}

SEC("uretprobe")
int waited_worker(struct pt_regs *ctx)
{
	return flushed(ctx, (s64)(int)ctx->ax, 1);
}

#define IN_PROGRESS 1

/* ucp_request_check_status(request) (opt-in: it is polled). */
SEC("uretprobe")
int checked(struct pt_regs *ctx)
{
	int status = (int)ctx->ax;
	struct done d = {};
	struct call call;

	if (!recall(ctx, &call) || status == IN_PROGRESS)
		return 0;
	begin(&d.head, KIND_DONE);
	d.request = call.a;
	d.status = status;
	send(&d, sizeof(d));
	return 0;
}
