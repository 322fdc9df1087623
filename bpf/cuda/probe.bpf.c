//go:build ignore

// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
//
// What a process asks of the CUDA driver's memory: one program where a function begins,
// one where it returns, whatever the function; the cookie says what it does. A call is
// told once it has succeeded. Of a process's memory the results are read, and the
// handles by which memory is opened elsewhere, of which a keyed digest stays.
//
// Nothing here sleeps, writes into the process or reads what is in its memory.

#include "records.h"
#include "targets.h"

static u64 (*attach_cookie)(void *ctx) = (void *)174; /* from Linux 5.15 */

/* Random, so that a digest tells nothing of a handle. */
const volatile u64 digest_key = 0;

enum kind { /* as in sidecar/source/cuda */
	ALLOC = 1,
	MANAGED,
	PITCHED,
	POOLED,
	FREE,
	CREATE,
	IMPORT,
	RETAIN,
	RELEASE,
	MAP,
	UNMAP,
	RESERVE,
	UNRESERVE,
	EXPORT,
	OPEN,
	CLOSE,
	CONTEXT_END,
	CONTEXT_RETAIN,
	CONTEXT_RELEASE,
	UNFOLLOWED,
	UNKNOWN,
};

struct record {
	struct head head; /* the time is that of its return */
	u64 entered;
	u64 base;
	u64 bytes;
	u64 other;
	u32 owner;
	u32 unused;
};

struct {
	UINT(type, MAP_RINGBUF);
	UINT(max_entries, 1 << 20);
} ring SEC(".maps");

struct {
	UINT(type, MAP_PERCPU_ARRAY);
	UINT(max_entries, NUM_COMMON_COUNTERS);
	TYPE(key, u32);
	TYPE(value, u64);
} counters SEC(".maps");

/* A call from its beginning to its return, by its thread, its frame and its function: a
 * function may call another that is attached to, or jump to it with its own frame. */
struct frame {
	u64 thread;
	u64 stack;
	u64 function; /* the cookie: a number of its own, and in the low byte its kind */
};

struct call {
	u64 kind;
	u64 first, second, third, fourth;
	u64 entered;
	u64 lent; /* of OPEN: the address in its owner */
	u32 owner;
	u32 watched;
};

struct {
	UINT(type, MAP_LRU_HASH);
	UINT(max_entries, 16384);
	TYPE(key, struct frame);
	TYPE(value, struct call);
} calls SEC(".maps");

/* Memory whose handle a watched process asked for, by the handle's digest. */
struct loan {
	u64 base;
	u32 owner;
	u32 unused;
};

struct {
	UINT(type, MAP_LRU_HASH);
	UINT(max_entries, 16384);
	TYPE(key, u64);
	TYPE(value, struct loan);
} exported SEC(".maps");

/* Where another process opened it. */
struct borrowed {
	u64 base;
	u32 tgid;
	u32 unused;
};

struct {
	UINT(type, MAP_LRU_HASH);
	UINT(max_entries, 16384);
	TYPE(key, struct borrowed);
	TYPE(value, struct loan);
} opened SEC(".maps");

INLINE void count(u32 which)
{
	u64 *c = map_lookup(&counters, &which);

	if (c)
		*c += 1;
}

INLINE int is_watched(u32 tgid)
{
	return map_lookup(&targets, &tgid) != 0;
}

INLINE void send(struct record *r)
{
	count(ringbuf_output(&ring, r, sizeof(*r), NO_WAKEUP) ? RECORDS_LOST : RECORDS_SENT);
}

#define HANDLE_WORDS 8

/* digest tells handles apart; 0: it cannot be read. */
INLINE u64 digest(u64 handle)
{
	u64 words[HANDLE_WORDS];
	u64 d = digest_key;

	if (read_user(words, sizeof(words), (void *)handle))
		return 0;
	for (int i = 0; i < HANDLE_WORDS; i++) {
		d = (d ^ words[i]) * 0x9e3779b97f4a7c15ULL;
		d ^= d >> 29;
	}
	return d | 1;
}

/* The handle of OPEN is passed by value: it lies behind the return address. */
INLINE void find_owner(struct call *c, u64 stack)
{
	u64 d = digest(stack + 8);
	struct loan *l = map_lookup(&exported, &d);

	if (l) {
		c->owner = l->owner;
		c->lent = l->base;
	}
}

INLINE int is_borrowed(u32 tgid, u64 base)
{
	struct borrowed b = { .base = base, .tgid = tgid };

	return map_lookup(&opened, &b) != 0;
}

SEC("uprobe")
int enter(struct pt_regs *ctx)
{
	struct frame f = { current_pid_tgid(), ctx->sp, attach_cookie(ctx) };
	u32 tgid = f.thread >> 32;
	struct call c = {
		.kind = f.function & 0xff,
		.first = ctx->di,
		.second = ctx->si,
		.third = ctx->dx,
		.fourth = ctx->cx,
		.watched = is_watched(tgid),
	};

	if (!c.watched && c.kind != OPEN && c.kind != CLOSE)
		return 0;
	if (c.kind == OPEN)
		find_owner(&c, f.stack);
	if (!c.watched && !(c.kind == OPEN ? c.owner != 0 : is_borrowed(tgid, c.first)))
		return 0;
	c.entered = ktime_ns();
	if (map_update(&calls, &f, &c, ANY) && !c.watched)
		count(LOST_CALLS);
	return 0;
}

/* result reads what a call wrote at an address. */
INLINE u64 result(struct record *r, u64 from)
{
	u64 value = 0;

	if (read_user(&value, sizeof(value), (void *)from))
		r->head.flags |= UNREADABLE;
	return value;
}

INLINE void lend(struct record *r, struct call *c)
{
	struct loan l = { .base = c->second, .owner = r->head.tgid };
	u64 d = digest(c->first);

	r->base = c->second;
	if (!d || map_update(&exported, &d, &l, ANY))
		count(LOST_CALLS);
}

INLINE void borrow(struct record *r, struct call *c)
{
	struct borrowed b = { .tgid = r->head.tgid };
	struct loan l = { .base = c->lent, .owner = c->owner };

	b.base = r->base = result(r, c->first);
	r->owner = c->owner;
	r->other = c->lent;
	if (c->owner && map_update(&opened, &b, &l, ANY))
		count(LOST_CALLS);
}

INLINE void give_back(struct record *r, struct call *c)
{
	struct borrowed b = { .base = c->first, .tgid = r->head.tgid };
	struct loan *l = map_lookup(&opened, &b);

	r->base = c->first;
	if (!l)
		return;
	r->owner = l->owner;
	r->other = l->base;
	map_delete(&opened, &b);
}

/* fill says what a call did; see each function's declaration in cuda.h. */
INLINE void fill(struct record *r, struct call *c)
{
	switch (c->kind) {
	case ALLOC: /* (address *, bytes, ...), and so MANAGED, POOLED, RESERVE */
	case MANAGED:
	case POOLED:
	case RESERVE:
		r->base = result(r, c->first);
		r->bytes = c->second;
		break;
	case PITCHED: /* (address *, pitch *, width, height, ...) */
		r->base = result(r, c->first);
		r->bytes = result(r, c->second) * c->fourth;
		break;
	case CREATE: /* (handle *, bytes, properties *): they have the place at 8 */
		r->base = result(r, c->first);
		r->bytes = c->second;
		r->other = result(r, c->third + 8);
		break;
	case IMPORT: /* (handle *, ...) */
		r->base = result(r, c->first);
		break;
	case RETAIN: /* (handle *, address) */
		r->base = result(r, c->first);
		r->other = c->second;
		break;
	case MAP: /* (address, bytes, offset, handle) */
		r->base = c->first;
		r->bytes = c->second;
		r->other = c->fourth;
		break;
	case FREE: /* (address) */
	case RELEASE: /* (handle) */
	case CONTEXT_RELEASE: /* (device) */
		r->base = c->first;
		break;
	case CONTEXT_RETAIN: /* (context *, device) */
		r->base = c->second;
		break;
	case UNMAP: /* (address, bytes) */
	case UNRESERVE:
		r->base = c->first;
		r->bytes = c->second;
		break;
	case EXPORT: /* (handle *, address) */
		lend(r, c);
		break;
	case OPEN: /* (address *, handle) */
		borrow(r, c);
		break;
	case CLOSE: /* (address) */
		give_back(r, c);
		break;
	}
}

SEC("uretprobe")
int leave(struct pt_regs *ctx)
{
	/* The return address is off the stack. */
	struct frame f = { current_pid_tgid(), ctx->sp - 8, attach_cookie(ctx) };
	struct call *begun = map_lookup(&calls, &f);
	struct record r = {
		.head.time = ktime_ns(),
		.head.tgid = f.thread >> 32,
		.head.tid = (u32)f.thread,
	};
	struct call c;

	if (!begun) {
		if (is_watched(r.head.tgid)) {
			r.head.kind = UNKNOWN;
			send(&r);
		}
		return 0;
	}
	c = *begun;
	map_delete(&calls, &f);
	if ((u32)ctx->ax) /* CUDA_SUCCESS is 0 */
		return 0;
	r.head.kind = c.kind;
	r.entered = c.entered;
	fill(&r, &c);
	if (c.watched || r.owner)
		send(&r);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
