//go:build ignore

/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Mooncake's TCP transport, on the process that receives: a header of 24 bytes
 * (size u64, address u64, opcode u8, padding), then that many bytes where the
 * opcode is WRITE. The headers are read, the payload is counted by the
 * connection's own byte numbers and never touched. The second version sets the
 * opcode's high bit and answers with status frames, which go the other way.
 *
 * Only the client speaks headers. A connection whose first header was sent and
 * not received is the client's end: it is reported once, so that the other end
 * can be told whose it is, and never looked at again.
 */
#include "socket.h"

enum kind {
	MOVED = 1,    /* a WRITE's payload has wholly arrived */
	ASKED = 2,    /* a READ's header has arrived */
	CLIENT = 3,   /* this process writes to the other end of the connection */
	JOINED = 4,   /* an open connection is followed from here on */
	BLIND = 5,    /* it is not: see reason */
	STRANGER = 6, /* it was open before, and what it carries is not known */
	CLOSED = 7,   /* the other side ended it */
};

enum reason {
	HOLE = 1,      /* bytes went by unseen where a header could be */
	NO_HEADER = 2, /* what stands where a header should is none */
	FAULT = 3,     /* the process's memory could not be read */
	SEGMENTS = 4,  /* a call with too many pieces or headers */
};

enum flag { AFTER_JOIN = 1, HOLED = 2, ACKNOWLEDGED = 4 };

struct record {
	u64 t; /* ns, CLOCK_MONOTONIC */
	u64 inode;
	u64 offset; /* of the header in the stream */
	u64 address;
	u64 size;
	u32 tgid;
	u8 kind;
	u8 opcode;
	u8 flags;
	u8 reason;
	struct ends ends;
};

enum state { HEADER = 0, BODY = 1, LOST = 2 };

#define HEADER_BYTES 24
#define READ_OPCODE 0
#define WRITE_OPCODE 1
#define ACKNOWLEDGED_BIT 0x80

/* Bounds of a header that is one: no piece of 256 TiB, no address beyond user
 * space (57 bits with five-level page tables), none below the first page. */
#define MAX_SIZE (1ULL << 48)
#define MAX_ADDRESS (1ULL << 57)
#define MIN_ADDRESS 4096

struct connection {
	u64 position; /* the stream's next byte that was not seen */
	u64 body_end;
	u64 began; /* offset of the header at hand */
	u64 address;
	u64 size;
	u64 headers; /* since it was met or joined */
	u8 state;
	u8 have; /* bytes of the header */
	u8 flags;
	u8 opcode;
	u8 known; /* it has carried a header */
	u8 unused[3];
	u8 header[64]; /* 24 are used; the rest is for the verifier */
	struct ends ends;
};

/* work is a call that is being walked through, of this CPU. */
struct work {
	u64 inode;
	u64 position; /* in the stream */
	u64 end;      /* of the segment at hand */
	u64 at;       /* user address of position */
	u64 t;
	u32 tgid;
	u32 outcome;
	struct record record;
};

enum outcome { GOING = 0, DONE = 1, STOPPED = 2 };

struct {
	UINT(type, MAP_HASH);
	UINT(max_entries, 8192);
	TYPE(key, u64);
	TYPE(value, struct connection);
} connections SEC(".maps");

/* others are sockets that carry something else. */
struct {
	UINT(type, MAP_LRU_HASH);
	UINT(max_entries, 16384);
	TYPE(key, u64);
	TYPE(value, u8);
} others SEC(".maps");

struct {
	UINT(type, MAP_RINGBUF);
	UINT(max_entries, 1 << 22);
} ring SEC(".maps");

struct {
	UINT(type, MAP_PERCPU_ARRAY);
	UINT(max_entries, 1);
	TYPE(key, u32);
	TYPE(value, struct work);
} works SEC(".maps");

/* seen = sent + lost, and connections that found no room */
enum counter { RECORDS_SENT = 0, RECORDS_LOST = 1, CONNECTIONS_LOST = 2, COUNTERS = 3 };

struct {
	UINT(type, MAP_PERCPU_ARRAY);
	UINT(max_entries, COUNTERS);
	TYPE(key, u32);
	TYPE(value, u64);
} counters SEC(".maps");

INLINE void count(u32 which)
{
	u64 *n = map_lookup(&counters, &which);

	if (n)
		++*n;
}

INLINE struct work *my_work(void)
{
	u32 zero = 0;

	return map_lookup(&works, &zero);
}

INLINE void send(struct work *w, struct connection *c, u8 kind, u8 reason)
{
	struct record *r = &w->record;

	r->t = w->t;
	r->inode = w->inode;
	r->offset = c->began;
	r->address = c->address;
	r->size = c->size;
	r->tgid = w->tgid;
	r->kind = kind;
	r->opcode = c->opcode;
	r->flags = c->flags;
	r->reason = reason;
	r->ends = c->ends;
	count(ringbuf_output(&ring, r, sizeof(*r), NO_WAKEUP) ? RECORDS_LOST : RECORDS_SENT);
}

/* lose ends what is known of a connection; one that never was Mooncake's is
 * forgotten. */
INLINE u32 lose(struct work *w, struct connection *c, u8 reason)
{
	u8 one = 1;

	if (reason == NO_HEADER && !c->known) {
		map_update(&others, &w->inode, &one, ANY);
		map_delete(&connections, &w->inode);
		return STOPPED;
	}
	if (c->headers)
		send(w, c, BLIND, reason);
	c->state = LOST;
	return STOPPED;
}

INLINE int plausible(const struct connection *c)
{
	return (c->opcode & ~ACKNOWLEDGED_BIT) <= WRITE_OPCODE && c->size > 0 && c->size < MAX_SIZE &&
	       c->address >= MIN_ADDRESS && c->address < MAX_ADDRESS;
}

INLINE u32 begin(struct work *w, struct connection *c)
{
	__builtin_memcpy(&c->size, c->header, 8);
	__builtin_memcpy(&c->address, c->header + 8, 8);
	c->opcode = c->header[16];
	c->have = 0;
	if (!plausible(c))
		return lose(w, c, NO_HEADER);
	c->flags = (c->flags & AFTER_JOIN) | (c->opcode & ACKNOWLEDGED_BIT ? ACKNOWLEDGED : 0);
	if (c->flags & AFTER_JOIN && !c->headers)
		send(w, c, JOINED, 0);
	c->headers++;
	c->known = 1;
	if ((c->opcode & ~ACKNOWLEDGED_BIT) == READ_OPCODE) {
		send(w, c, ASKED, 0);
		return GOING;
	}
	c->state = BODY;
	c->body_end = w->position + c->size;
	return GOING;
}

INLINE u32 take_header(struct work *w, struct connection *c)
{
	u64 left = w->end - w->position;
	u64 have = BOUND(c->have, 32);
	u64 n = HEADER_BYTES - have;

	if (left < n)
		n = left;
	n = BOUND(n, 32);
	if (!have)
		c->began = w->position;
	if (read_user(c->header + have, n, (void *)w->at))
		return lose(w, c, FAULT);
	c->have = have + n;
	w->position += n;
	w->at += n;
	return c->have < HEADER_BYTES ? GOING : begin(w, c);
}

INLINE u32 take_body(struct work *w, struct connection *c)
{
	u64 n = w->end - w->position;

	if (n > c->body_end - w->position)
		n = c->body_end - w->position;
	w->position += n;
	w->at += n;
	if (w->position < c->body_end)
		return GOING;
	send(w, c, MOVED, 0);
	c->state = HEADER;
	return GOING;
}

/* step takes the next header or body, or what there is of it. */
CHECKED_ALONE int step(void)
{
	struct work *w = my_work();
	struct connection *c;

	if (!w)
		return STOPPED;
	c = map_lookup(&connections, &w->inode);
	if (!c || c->state == LOST)
		return STOPPED;
	if (w->position >= w->end)
		return DONE;
	return c->state == BODY ? take_body(w, c) : take_header(w, c);
}

/* Headers and bodies of one segment. */
#define MAX_STEPS 256

CHECKED_ALONE int walk(void)
{
	struct work *w = my_work();
	struct connection *c;
	u32 outcome;

	for (int i = 0; i < MAX_STEPS; i++) {
		outcome = step();
		if (outcome != GOING)
			return outcome;
	}
	if (!w)
		return STOPPED;
	c = map_lookup(&connections, &w->inode);
	if (c)
		lose(w, c, SEGMENTS);
	return STOPPED;
}

INLINE void walk_call(struct work *w, const struct call *call)
{
	u64 at, length, stop = w->position + call->moved;

	for (u64 k = 0; k < MAX_SEGMENTS; k++) {
		if (w->position >= stop || !segment(call, k, &at, &length))
			break;
		w->at = at;
		w->end = length < stop - w->position ? w->position + length : stop;
		if (walk() != DONE)
			break;
	}
}

/* join begins anew with an open connection. Mooncake asks for a header alone: a
 * call that gets just that stands at a boundary. */
INLINE int join(struct connection *c, const struct call *call)
{
	if (call->asked != HEADER_BYTES || call->moved != HEADER_BYTES)
		return 0;
	c->state = HEADER;
	c->have = 0;
	c->flags = AFTER_JOIN;
	c->headers = 0;
	return 1;
}

/* resume compares where the call stands with where the connection was left. */
INLINE int resume(struct work *w, struct connection *c, const struct call *call)
{
	if (c->state == LOST)
		return join(c, call);
	if (w->position == c->position)
		return 1;
	if (c->state == BODY && w->position > c->position && w->position <= c->body_end) {
		c->flags |= HOLED;
		return 1;
	}
	lose(w, c, HOLE);
	return 0;
}

/* meet decides what an unknown socket is. */
INLINE struct connection *meet(struct work *w, const struct call *call)
{
	struct connection fresh = {};
	u8 one = 1;

	if (!is_tcp(call->sk) || call->direction == SENT)
		goto other;
	w->position = received_bytes(call->sk, UNKNOWN_POSITION) - call->moved;
	fresh.position = w->position;
	take_ends(&fresh.ends, call->sk);
	if (w->position) {
		fresh.state = LOST;
		send(w, &fresh, STRANGER, 0);
	}
	if (map_update(&connections, &w->inode, &fresh, NOEXIST)) {
		count(CONNECTIONS_LOST);
		return 0;
	}
	return map_lookup(&connections, &w->inode);
other:
	map_update(&others, &w->inode, &one, ANY);
	return 0;
}

/* first_sent reports a connection on which this process sends the first header. */
INLINE void first_sent(struct work *w, const struct call *call)
{
	struct connection fresh = {};
	u64 at, length, start;
	u8 one = 1;

	if (!is_tcp(call->sk))
		goto other;
	start = sent_bytes(call->sk, UNKNOWN_POSITION) - call->moved;
	if (start > 1 || !segment(call, 0, &at, &length) || length < HEADER_BYTES || call->moved < HEADER_BYTES)
		goto other;
	if (read_user(fresh.header, HEADER_BYTES, (void *)at))
		goto other;
	__builtin_memcpy(&fresh.size, fresh.header, 8);
	__builtin_memcpy(&fresh.address, fresh.header + 8, 8);
	fresh.opcode = fresh.header[16];
	if (!plausible(&fresh))
		goto other;
	take_ends(&fresh.ends, call->sk);
	send(w, &fresh, CLIENT, 0);
other:
	map_update(&others, &w->inode, &one, ANY);
}

SEC("raw_tp/sys_exit")
int tcpxfer_exit(struct raw_tracepoint_args *ctx)
{
	struct call call = {};
	struct connection *c;
	struct work *w;
	u64 after;

	if (!take_call(&call, ctx))
		return 0;
	c = map_lookup(&connections, &call.inode);
	if (!c && map_lookup(&others, &call.inode))
		return 0;
	w = my_work();
	if (!w || !take_socket(&call))
		return 0;
	w->t = ktime_ns();
	w->inode = call.inode;
	w->tgid = call.tgid;
	if (call.direction == SENT) {
		if (!c)
			first_sent(w, &call);
		return 0;
	}
	if (!call.moved) {
		if (c && (call.asked || call.segments)) {
			send(w, c, CLOSED, 0);
			map_delete(&connections, &call.inode);
		}
		return 0;
	}
	if (c)
		w->position = received_bytes(call.sk, c->position + call.moved) - call.moved;
	else
		c = meet(w, &call);
	if (!c)
		return 0;
	after = w->position + call.moved;
	if (resume(w, c, &call))
		walk_call(w, &call);
	c = map_lookup(&connections, &call.inode);
	if (!c)
		return 0;
	if (w->position != after && c->state != LOST)
		lose(w, c, SEGMENTS);
	c->position = after;
	return 0;
}

char terms[] SEC("license") = "GPL";
