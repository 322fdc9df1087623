//go:build ignore

// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
//
// What a process asks of the CUDA driver's memory: one program where a function begins,
// one where it returns, whatever the function; the cookie says what it does. A call is
// told once it has succeeded. Of a process's memory the results are read, and the
// handles by which memory is opened elsewhere, of which a keyed digest stays. Memory that
// is lent by file descriptor is known by its open file.
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
	GROUP,
	RETAIN,
	RELEASE,
	MAP,
	UNMAP,
	RESERVE,
	UNRESERVE,
	EXPORT,
	OPEN,
	CLOSE,
	LEND,
	LEND_POOL,
	IMPORT_POOL,
	CONTEXT_END,
	CONTEXT_RETAIN,
	CONTEXT_RELEASE,
	UNFOLLOWED,
	COPY,
	COPY_PEER,
	COPY_UNFOLLOWED,
	UNKNOWN,
};

enum counter {
	LOST_COPIES = NUM_COMMON_COUNTERS, /* copies that are not told */
	NUM_COUNTERS,
};

enum handle_type { BY_DESCRIPTOR = 1, BY_FABRIC = 8 }; /* CUmemAllocationHandleType */

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
	UINT(max_entries, NUM_COUNTERS);
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
	u64 lent; /* of what opens memory: its base with its owner */
	u32 owner;
	u32 watched;
};

struct {
	UINT(type, MAP_LRU_HASH);
	UINT(max_entries, 16384);
	TYPE(key, struct frame);
	TYPE(value, struct call);
} calls SEC(".maps");

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

INLINE int copies(u64 kind)
{
	return kind == COPY || kind == COPY_PEER || kind == COPY_UNFOLLOWED;
}

/* Copies leave half of the ring to what else there is to tell: there may be many. */
INLINE void send_copy(struct record *r)
{
	if (ringbuf_query(&ring, IN_USE) > ringbuf_query(&ring, RING_SIZE) / 2 || ringbuf_output(&ring, r, sizeof(*r), NO_WAKEUP))
		count(LOST_COPIES);
	else
		count(RECORDS_SENT);
}

/* result reads what a call wrote at an address. */
INLINE u64 result(struct record *r, u64 from)
{
	u64 value = 0;

	if (read_user(&value, sizeof(value), (void *)from))
		r->head.flags |= UNREADABLE;
	return value;
}

#include "lending.h"

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

	if (!c.watched && !opens(c.kind) && c.kind != CLOSE)
		return 0;
	if (c.kind == COPY_PEER) {
		c.second = ctx->dx;
		c.third = ctx->r8;
	}
	if (opens(c.kind))
		find_owner(&c, f.stack);
	if (!c.watched && !(opens(c.kind) ? c.owner != 0 : is_borrowed(tgid, c.first)))
		return 0;
	c.entered = ktime_ns();
	if (map_update(&calls, &f, &c, ANY) && !c.watched)
		count(LOST_CALLS);
	return 0;
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
	case IMPORT: /* (handle or pool *, ...) */
	case IMPORT_POOL:
	case GROUP:
		r->base = result(r, c->first);
		r->owner = c->owner;
		r->other = c->lent;
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
	case COPY: /* (to, from, bytes, ...) */
	case COPY_PEER: /* (to, its context, from, its context, bytes, ...), see enter */
		r->base = c->first;
		r->other = c->second;
		r->bytes = c->third;
		break;
	case EXPORT: /* (handle *, address) */
		lend(r, c);
		break;
	case LEND: /* (descriptor * or handle *, what is lent, which of the two) */
	case LEND_POOL:
		lend_further(r, c);
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
		if (is_watched(r.head.tgid) && copies(f.function & 0xff)) {
			count(LOST_COPIES);
		} else if (is_watched(r.head.tgid)) {
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
	if (copies(c.kind))
		send_copy(&r);
	else if (c.watched || r.owner)
		send(&r);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
