//go:build ignore

// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
//
// What a user of libibverbs posts to its NICs, whatever the provider. The
// layouts are rdma-core's from v44 to v65 (x86-64). All that is read here lies
// in the target's memory and is hostile: every length, chain and count is
// bounded, and a record says what was cut off.
//
// Nothing here sleeps, writes into the target or reads page content.

#include "kernel.h"
#include "verbs.h"

char LICENSE[] SEC("license") = "GPL";

const volatile u8 have_loop = 1; /* from Linux 5.17 */

static long (*loop)(u32 turns, void *each, void *with, u64 flags) = (void *)181;
static u64 (*ringbuf_query)(void *ring, u64 what) = (void *)134;
#define AVAILABLE 0
#define FORCE_WAKEUP 2

struct {
	UINT(type, MAP_HASH);
	UINT(max_entries, 1024);
	TYPE(key, u32); /* tgid */
	TYPE(value, u8);
} watched SEC(".maps");

struct {
	UINT(type, MAP_RINGBUF);
	UINT(max_entries, 16 << 20);
} records SEC(".maps");

enum counter {
	LOST_RING = 0, /* no room in the ring */
	LOST_BUSY, /* every scratch of this CPU was in use */
	LOST_CALLS, /* a call was not remembered until its return */
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

#define BULK 8 /* requests, and scatter entries, that are read at a time */
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

	return map_lookup(&watched, &tgid) != 0;
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
	/* Waking the reader costs more than all the rest: only when much waits. The
	 * reader also looks by the clock. */
	u64 flags = ringbuf_query(&records, AVAILABLE) > (256 << 10) ?
			      FORCE_WAKEUP : NO_WAKEUP;

	if (ringbuf_output(&records, record, size, flags))
		count(LOST_RING, 1);
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

/* ---- posting ---------------------------------------------------------- */

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
 * are read at once. Those behind the end of a row may be anything; they are not
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
		if (from != last + SGE_SIZE || read_user(s->sges, sizeof(s->sges), (void *)from))
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

/* ---- the extended API ------------------------------------------------- */

/* A request of the extended API is put together in several calls of one thread,
 * between wr_start and wr_complete. */
struct building {
	struct head head;
	u64 context;
	u64 qp;
	u32 qp_num;
	u32 requests; /* that the extent is of */
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
	UINT(max_entries, 1024);
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

INLINE int start_request(void *qp, u32 rkey, u64 remote, u8 op)
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
	return start_request(qp, rkey, remote, OP_WRITE);
}

SEC("uprobe")
int ext_write_imm(struct pt_regs *ctx)
{
	void *qp = (void *)ctx->di;
	u32 rkey = (u32)ctx->si;
	u64 remote = ctx->dx;
	return start_request(qp, rkey, remote, OP_WRITE_IMM);
}

SEC("uprobe")
int ext_read(struct pt_regs *ctx)
{
	void *qp = (void *)ctx->di;
	u32 rkey = (u32)ctx->si;
	u64 remote = ctx->dx;
	return start_request(qp, rkey, remote, OP_READ);
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

/* ---- completions (opt-in: a return probe taxes every empty poll) ------- */

struct wc { /* struct ibv_wc */
	u64 wr_id;
	u32 status, opcode, vendor_err, byte_len, imm, qp_num, src_qp, flags;
	u16 pkey_index, slid;
	u8 sl, dlid_path_bits;
	u16 pad;
};

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

SEC("uprobe")
int poll_cq(struct pt_regs *ctx)
{
	void *cq = (void *)ctx->di;
	u64 wcs = ctx->dx;
	if (is_watched())
		remember((u64)cq, wcs, 0, 0);
	return 0;
}

SEC("uretprobe")
int poll_cq_done(struct pt_regs *ctx)
{
	int n = (int)ctx->ax;
	struct call call;
	u32 slot;

	if (!recall(&call) || n <= 0)
		return 0;
	struct scratch *s = take(&slot);

	if (!s)
		return 0;
	struct completed *c = &s->completed;

	begin(&c->head, KIND_COMPLETED);
	if (read_user(&c->context, sizeof(c->context), (void *)call.a))
		c->context = 0;
	if (n > MAX_WCS) {
		c->head.flags |= TRUNCATED;
		n = MAX_WCS;
	}
	for (u32 i = 0; i < MAX_WCS; i++) {
		struct wc wc;

		if (i >= n)
			break;
		if (read_user(&wc, sizeof(wc), (void *)(call.b + i * sizeof(wc)))) {
			c->head.flags |= UNREADABLE;
			break;
		}
		c->all[i].wr_id = wc.wr_id;
		c->all[i].qp_num = wc.qp_num;
		c->all[i].status = wc.status;
		c->head.n = i + 1;
	}
	u64 seen = c->head.n;

	asm volatile("" : "+r"(seen));
	if (seen > MAX_WCS)
		seen = MAX_WCS;
	send(c, __builtin_offsetof(struct completed, all) + seen * sizeof(struct completion));
	give(s);
	return 0;
}

/* ---- contexts, QPs, registrations ------------------------------------- */

#define CONTEXT_POLL_CQ 96
#define CONTEXT_POST_SEND 208
#define CONTEXT_ABI_COMPAT 320

INLINE void read_ops(u64 context, u64 *post_send, u64 *poll_cq, u64 *abi)
{
	*post_send = *poll_cq = *abi = 0;
	read_user(post_send, 8, (void *)(context + CONTEXT_POST_SEND));
	read_user(poll_cq, 8, (void *)(context + CONTEXT_POLL_CQ));
	read_user(abi, 8, (void *)(context + CONTEXT_ABI_COMPAT));
}

/* verbs_open_device returns a context. */
SEC("uretprobe")
int opened(struct pt_regs *ctx)
{
	u64 context = ctx->ax;
	struct context c = {};

	if (!context || !is_watched())
		return 0;
	begin(&c.head, KIND_CONTEXT);
	c.context = context;
	read_ops(context, &c.post_send, &c.poll_cq, &c.abi_compat);
	send(&c, sizeof(c));
	return 0;
}

INLINE int say_gone(u64 what, u16 kind)
{
	struct gone g = {};

	if (!is_watched())
		return 0;
	begin(&g.head, kind);
	g.what = what;
	send(&g, sizeof(g));
	return 0;
}

SEC("uprobe")
int closed(struct pt_regs *ctx)
{
	u64 context = ctx->di;
	return say_gone(context, KIND_CONTEXT_GONE);
}

#define ATTR_STATE 0
#define ATTR_DEST_QPN 28
#define ATTR_DGID 56
#define ATTR_DLID 80
#define ATTR_IS_GLOBAL 85

/* ibv_modify_qp(qp, attr, mask) */
SEC("uprobe")
int modify_qp(struct pt_regs *ctx)
{
	void *qp = (void *)ctx->di;
	void *attr = (void *)ctx->si;
	int mask = (int)ctx->dx;
	struct qp_head head;
	struct qp q = {};
	u8 global = 0;
	u16 dlid = 0;

	if (!is_watched())
		return 0;
	begin(&q.head, KIND_QP);
	if (read_user(&head, sizeof(head), qp))
		return 0;
	q.qp = (u64)qp;
	q.context = head.context;
	q.qp_num = head.qp_num;
	q.mask = mask;
	read_ops(head.context, &q.post_send, &q.poll_cq, &q.abi_compat);
	read_user(&q.state, sizeof(q.state), attr + ATTR_STATE);
	read_user(&q.dest_qp_num, sizeof(q.dest_qp_num), attr + ATTR_DEST_QPN);
	read_user(&q.dgid, sizeof(q.dgid), attr + ATTR_DGID);
	read_user(&dlid, sizeof(dlid), attr + ATTR_DLID);
	read_user(&global, sizeof(global), attr + ATTR_IS_GLOBAL);
	q.dlid = dlid;
	q.is_global = global;
	send(&q, sizeof(q));
	return 0;
}

SEC("uprobe")
int destroy_qp(struct pt_regs *ctx)
{
	u64 qp = ctx->di;
	return say_gone(qp, KIND_QP_GONE);
}

/* ibv_qp_to_qp_ex returns the extended side of a QP, with its functions. */
SEC("uretprobe")
int extended_qp(struct pt_regs *ctx)
{
	u64 qp = ctx->ax;
	struct extended x = {};
	struct qp_head head = {};

	if (!qp || !is_watched())
		return 0;
	begin(&x.head, KIND_EXTENDED);
	read_user(&head, sizeof(head), (void *)qp);
	x.qp = qp;
	x.context = head.context;
	x.qp_num = head.qp_num;
	read_user(&x.functions, sizeof(x.functions), (void *)(qp + QP_EX_FUNCTIONS));
	send(&x, sizeof(x));
	return 0;
}

/* ibv_reg_mr_iova2(pd, addr, length, iova, access) and ibv_reg_dmabuf_mr(pd,
 * offset, length, iova, fd, access): remote sides name the iova. */
SEC("uprobe")
int reg_mr(struct pt_regs *ctx)
{
	u64 addr = ctx->si;
	u64 length = ctx->dx;
	u64 iova = ctx->cx;
	if (is_watched())
		remember(iova, length, addr, 0);
	return 0;
}

SEC("uprobe")
int reg_dmabuf_mr(struct pt_regs *ctx)
{
	u64 offset = ctx->si;
	u64 length = ctx->dx;
	u64 iova = ctx->cx;
	if (is_watched())
		remember(iova, length, offset, 1);
	return 0;
}

#define MR_LKEY 36
#define MR_RKEY 40

SEC("uretprobe")
int reg_mr_done(struct pt_regs *ctx)
{
	u64 mr = ctx->ax;
	struct region r = {};
	struct call call;

	if (!recall(&call) || !mr)
		return 0;
	begin(&r.head, KIND_REGION);
	r.mr = mr;
	r.addr = call.a;
	r.bytes = call.b;
	r.dmabuf = call.d;
	read_user(&r.lkey, sizeof(r.lkey), (void *)(mr + MR_LKEY));
	read_user(&r.rkey, sizeof(r.rkey), (void *)(mr + MR_RKEY));
	send(&r, sizeof(r));
	return 0;
}

SEC("uprobe")
int dereg_mr(struct pt_regs *ctx)
{
	u64 mr = ctx->di;
	return say_gone(mr, KIND_REGION_GONE);
}
