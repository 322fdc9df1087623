/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* What is posted: post_send, with its chain of requests. */
#pragma once
#include "common.h"

struct wr { /* the head of struct ibv_send_wr */
	u64 wr_id;
	u64 next;
	u64 sg_list;
	u32 num_sge;
	u32 opcode;
	u32 send_flags;
	u32 imm;
	u64 remote_addr;
	u32 rkey;
	u32 pad;
};

struct sge {
	u64 addr;
	u32 length;
	u32 lkey;
};

struct qp_head { /* the head of struct ibv_qp */
	u64 context;
	u64 qp_context, pd, send_cq, recv_cq, srq;
	u32 handle, qp_num;
	u32 state, qp_type;
};

#define OP_WRITE 0
#define OP_WRITE_IMM 1
#define OP_READ 4
#define SEND_SIGNALED 2

struct walk {
	u64 wr;
	u64 last; /* the request before */
	u64 wrs_at, sges_at; /* what the scratch holds a copy of, 0: nothing */
	u64 last_sge;
	u32 slot; /* of the scratch */
	u32 followed;
};

/* A piece of a request: bytes that are contiguous on both sides. */
struct piece {
	u64 remote, local, bytes, wr_id;
	u32 rkey;
	u32 slot;
	u8 op;
	u8 signaled;
	u8 first; /* of its request */
};

INLINE void flush(struct posted *p)
{
	u64 n = p->head.n;

	asm volatile("" : "+r"(n)); /* else the bound is put on another register */
	if (n > MAX_EXTENTS)
		n = MAX_EXTENTS;
	send(p, __builtin_offsetof(struct posted, extents) + n * sizeof(struct extent));
	p->head.n = 0;
	p->head.flags = 0;
	p->requests = 0;
}

INLINE struct posted *scratch_posted(u32 slot)
{
	struct scratch *s = map_lookup(&scratches, &slot);

	return s ? &s->posted : 0;
}

/* add joins a piece to the last extent or begins one. It is global, so that the
 * verifier looks at it once and not in each turn of a loop. */
CHECKED_ALONE int add(struct piece *g)
{
	if (!g)
		return 1;
	struct posted *p = scratch_posted(g->slot);

	if (!p)
		return 1;
	u32 n = p->head.n;

	if (n > 0 && n <= MAX_EXTENTS) {
		struct extent *e = &p->extents[(n - 1) & (MAX_EXTENTS - 1)];

		if (e->remote + e->bytes == g->remote && e->local + e->bytes == g->local &&
		    e->rkey == g->rkey && e->op == g->op && e->signaled == g->signaled) {
			e->bytes += g->bytes;
			e->requests += g->first;
			e->wr_id = g->wr_id;
			return 0;
		}
	}
	if (n >= MAX_EXTENTS) {
		u32 requests = g->first;

		p->requests -= requests;
		flush(p);
		p->requests = requests;
		n = 0;
	}
	struct extent *e = &p->extents[n & (MAX_EXTENTS - 1)];

	e->remote = g->remote;
	e->local = g->local;
	e->bytes = g->bytes;
	e->wr_id = g->wr_id;
	e->rkey = g->rkey;
	e->requests = g->first;
	e->op = g->op;
	e->signaled = g->signaled;
	p->head.n = n + 1;
	return 0;
}

/* Chains mostly lie in arrays, and so do their scatter entries, and reading the
 * target's memory is what a request costs: from the second of a row on, several
 * are read at once, and of scatter entries from the first on where its request has
 * another behind it. What is behind the end of a row may be anything; it is not
 * looked at. */
INLINE int fetch_wr(struct scratch *s, struct walk *w, struct wr *wr)
{
	u64 in = w->wr - w->wrs_at;

	if (!w->wrs_at || in > (BULK - 1) * WR_SIZE || in % WR_SIZE) {
		w->wrs_at = 0;
		if (w->wr != w->last + WR_SIZE || read_user(s->wrs, sizeof(s->wrs), (void *)w->wr))
			return read_user(wr, sizeof(*wr), (void *)w->wr);
		w->wrs_at = w->wr;
		in = 0;
	}
	in = BOUND(in, BULK * WR_SIZE) & ~(WR_SIZE - 1);
	*wr = *(struct wr *)(s->wrs + in);
	return 0;
}

INLINE int fetch_sge(struct scratch *s, struct walk *w, u64 from, struct sge *sge)
{
	u64 in = from - w->sges_at;
	u64 last = w->last_sge;

	w->last_sge = from;
	if (!w->sges_at || in > (BULK - 1) * SGE_SIZE || in % SGE_SIZE) {
		w->sges_at = 0;
		if ((from != last + SGE_SIZE && w->wr != w->last + WR_SIZE) || read_user(s->sges, sizeof(s->sges), (void *)from))
			return read_user(sge, sizeof(*sge), (void *)from);
		w->sges_at = from;
		in = 0;
	}
	in = BOUND(in, BULK * SGE_SIZE) & ~(SGE_SIZE - 1);
	*sge = *(struct sge *)(s->sges + in);
	return 0;
}

/* follow takes one work request of a chain; 1 ends the walk. */
CHECKED_ALONE int follow(struct walk *w)
{
	struct piece g = {};
	struct wr wr;

	if (!w || !w->wr)
		return 1;
	u32 slot = w->slot;
	struct scratch *s = map_lookup(&scratches, &slot);

	if (!s)
		return 1;
	struct posted *p = &s->posted;

	if (fetch_wr(s, w, &wr)) {
		p->head.flags |= UNREADABLE;
		w->wr = 0;
		return 1;
	}
	w->last = w->wr;
	w->wr = wr.next;
	w->followed++;
	p->requests++;
	if (wr.opcode != OP_WRITE && wr.opcode != OP_WRITE_IMM && wr.opcode != OP_READ)
		return 0;
	if (wr.num_sge > MAX_SGES)
		p->head.flags |= TRUNCATED;
	g.remote = wr.remote_addr;
	g.wr_id = wr.wr_id;
	g.rkey = wr.rkey;
	g.slot = w->slot;
	g.op = wr.opcode;
	g.signaled = (wr.send_flags & SEND_SIGNALED) != 0;
	g.first = 1;
	for (u32 i = 0; i < MAX_SGES && i < wr.num_sge; i++) {
		struct sge e;

		if (fetch_sge(s, w, wr.sg_list + i * SGE_SIZE, &e)) {
			p->head.flags |= UNREADABLE;
			break;
		}
		g.local = e.addr;
		g.bytes = e.length;
		if (e.length) {
			add(&g);
			g.first = 0;
		}
		g.remote += e.length;
	}
	return 0;
}

static long follow_in_loop(u32 index, struct walk *w)
{
	return follow(w) != 0;
}

/* post_send(qp, wr, bad_wr), attached by address in the provider. A request
 * that the provider then refuses is counted as posted: only its completion, or
 * that of the transfer, makes it count. */
SEC("uprobe")
int post_send(struct pt_regs *ctx)
{
	void *qp = (void *)ctx->di;
	u64 first = ctx->si;
	struct qp_head head;
	struct walk w = { .wr = first };

	if (!is_watched())
		return 0;
	struct scratch *s = take(&w.slot);

	if (!s)
		return 0;
	struct posted *p = &s->posted;

	begin(&p->head, KIND_POSTED);
	p->requests = 0;
	if (read_user(&head, sizeof(head), qp)) {
		p->head.flags |= UNREADABLE;
		head.context = 0;
		head.qp_num = 0;
	}
	p->context = head.context;
	p->qp = (u64)qp;
	p->qp_num = head.qp_num;
	p->site = attach_cookie(ctx);
	if (have_loop) {
		loop(MAX_CHAIN, follow_in_loop, &w, 0);
	} else {
		for (int i = 0; i < SHORT_CHAIN; i++)
			if (follow(&w))
				break;
	}
	if (w.wr)
		p->head.flags |= TRUNCATED;
	count(COUNT_CALLS, 1);
	count(COUNT_REQUESTS, w.followed);
	if (p->requests || p->head.flags)
		flush(p);
	give(s);
	return 0;
}
