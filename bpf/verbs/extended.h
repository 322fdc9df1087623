/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* The extended API, where a request is put together in several calls. */
#pragma once
#include "posting.h"

/* A request of the extended API is put together in several calls of one thread,
 * between wr_start and wr_complete. */
struct building {
	struct head head;
	u64 context;
	u64 qp;
	u32 qp_num;
	u32 requests; /* that the extent is of */
	u64 site;
	struct extent extent;

	u64 remote; /* where the next scatter entry goes */
	u64 wr_id;
	u32 rkey;
	u8 op;
	u8 signaled;
	u8 bare; /* the request has no scatter entry yet */
	u8 pad;
};

struct {
	UINT(type, MAP_LRU_HASH);
	UINT(max_entries, 4096);
	TYPE(key, u64); /* pid_tgid */
	TYPE(value, struct building);
} buildings SEC(".maps");

static const struct building nothing;

#define QP_EX_WR_ID 168
#define QP_EX_WR_FLAGS 176

/* send_built says what was put together so far. A request without a scatter
 * entry moved bytes that are not seen (inline data). */
INLINE void send_built(struct building *b)
{
	if (b->bare) {
		b->head.flags |= TRUNCATED;
		b->requests++;
		b->bare = 0;
	}
	b->head.time = ktime_ns(); /* that it was begun says nothing yet */
	if (b->requests)
		send(b, __builtin_offsetof(struct building, remote));
	b->head.n = 0;
	b->head.flags = 0;
	b->requests = 0;
	__builtin_memset(&b->extent, 0, sizeof(b->extent));
}

INLINE struct building *built(void)
{
	u64 id = current_pid_tgid();

	return map_lookup(&buildings, &id);
}

INLINE int start_request(void *ctx, void *qp, u32 rkey, u64 remote, u8 op)
{
	u64 id = current_pid_tgid();
	struct building *b = built();
	struct qp_head head = {};
	u32 flags = 0;

	if (!b) {
		if (!is_watched())
			return 0;
		map_update(&buildings, &id, &nothing, ANY);
		b = built();
		if (!b) {
			count(LOST_CALLS, 1);
			return 0;
		}
	}
	if (b->bare || b->qp != (u64)qp)
		send_built(b);
	if (!b->requests) {
		read_user(&head, sizeof(head), qp);
		begin(&b->head, KIND_POSTED);
		b->context = head.context;
		b->qp = (u64)qp;
		b->qp_num = head.qp_num;
		b->site = attach_cookie(ctx);
	}
	read_user(&b->wr_id, sizeof(b->wr_id), qp + QP_EX_WR_ID);
	read_user(&flags, sizeof(flags), qp + QP_EX_WR_FLAGS);
	b->signaled = (flags & SEND_SIGNALED) != 0;
	b->remote = remote;
	b->rkey = rkey;
	b->op = op;
	b->bare = 1;
	count(COUNT_REQUESTS, 1);
	return 0;
}

SEC("uprobe")
int ext_write(struct pt_regs *ctx)
{
	void *qp = (void *)ctx->di;
	u32 rkey = (u32)ctx->si;
	u64 remote = ctx->dx;
	return start_request(ctx, qp, rkey, remote, OP_WRITE);
}

SEC("uprobe")
int ext_write_imm(struct pt_regs *ctx)
{
	void *qp = (void *)ctx->di;
	u32 rkey = (u32)ctx->si;
	u64 remote = ctx->dx;
	return start_request(ctx, qp, rkey, remote, OP_WRITE_IMM);
}

SEC("uprobe")
int ext_read(struct pt_regs *ctx)
{
	void *qp = (void *)ctx->di;
	u32 rkey = (u32)ctx->si;
	u64 remote = ctx->dx;
	return start_request(ctx, qp, rkey, remote, OP_READ);
}

INLINE void add_built(struct building *b, u64 addr, u32 length)
{
	struct extent *e = &b->extent;

	if (!length)
		return;
	if (b->head.n && e->remote + e->bytes == b->remote && e->local + e->bytes == addr &&
	    e->rkey == b->rkey && e->op == b->op && e->signaled == b->signaled) {
		e->bytes += length;
	} else {
		u8 bare = b->bare;

		b->bare = 0;
		if (b->head.n)
			send_built(b);
		b->bare = bare;
		e->remote = b->remote;
		e->local = addr;
		e->bytes = length;
		e->rkey = b->rkey;
		e->requests = 0;
		e->op = b->op;
		e->signaled = b->signaled;
		b->head.n = 1;
	}
	e->wr_id = b->wr_id;
	e->requests += b->bare;
	b->requests += b->bare;
	b->bare = 0;
	b->remote += length;
}

SEC("uprobe")
int ext_set_sge(struct pt_regs *ctx)
{
	u64 addr = ctx->dx;
	u32 length = (u32)ctx->cx;
	struct building *b = built();

	if (b)
		add_built(b, addr, length);
	return 0;
}

SEC("uprobe")
int ext_set_sge_list(struct pt_regs *ctx)
{
	u64 num = ctx->si;
	u64 list = ctx->dx;
	struct building *b = built();

	if (!b)
		return 0;
	if (num > MAX_SGES) {
		b->head.flags |= TRUNCATED;
		num = MAX_SGES;
	}
	for (u32 i = 0; i < MAX_SGES; i++) {
		struct sge g;

		if (i >= num)
			break;
		if (read_user(&g, sizeof(g), (void *)(list + i * sizeof(g)))) {
			b->head.flags |= UNREADABLE;
			break;
		}
		add_built(b, g.addr, g.length);
	}
	return 0;
}

SEC("uprobe")
int ext_complete(struct pt_regs *ctx)
{
	u64 id = current_pid_tgid();
	struct building *b = built();

	if (!b)
		return 0;
	send_built(b);
	map_delete(&buildings, &id);
	return 0;
}
