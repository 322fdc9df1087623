/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* What is known of a connection, what a call at hand is, and what goes to user
 * space. */
#pragma once
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
