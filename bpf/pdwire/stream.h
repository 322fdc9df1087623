/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* What is known of a connection, what a call at hand is, and what goes to user
 * space. */
#pragma once
#include "socket.h"
#include "shapes.h"

enum kind {
	DATA = 1,    /* length bytes follow */
	CUT = 2,     /* length bytes of one frame's body are not handed on */
	OPENED = 3,  /* a greeting of ZMTP 3 with NULL security ends at offset */
	JOINED = 4,  /* an open connection is followed from offset on */
	BLIND = 5,   /* it is not any more: see reason */
	REFUSED = 6, /* ZMTP that cannot be read: encrypted, or an old version */
	CLOSED = 7,  /* the other side ended the connection */
};

enum reason {
	HOLE = 1,     /* bytes went by unseen */
	FRAME = 2,    /* what stands where a frame should is none */
	FAULT = 3,    /* the process's memory could not be read */
	SEGMENTS = 4, /* a call with too many pieces or frames */
};

/* begins: the first byte is the first of a message */
enum flag { BEGINS = 1 };

struct record {
	u64 t; /* ns, CLOCK_MONOTONIC */
	u64 inode;
	u64 offset; /* in the stream of that direction */
	u64 length;
	u32 tgid;
	u8 kind;
	u8 direction;
	u8 flags;
	u8 reason;
	struct ends ends;
};

/* Bytes of data in one record. */
#define CHUNK 16384
/* The longest frame that is handed on. */
#define MAX_FRAME (8ULL << 20)
#define GREETING_BYTES 64

enum state {
	NEW = 0,      /* nothing has gone in this direction */
	GREETING = 1, /* its bytes are being gathered */
	HEADER = 2,   /* of a frame */
	FIRST = 3,    /* the first bytes of a message's first body */
	BODY = 4,
	LOST = 5, /* where frames begin is not known */
	DEAF = 6, /* refused */
};

struct stream {
	u64 position; /* the next byte that was not seen */
	u64 body_end;
	u8 state;
	u8 have; /* bytes gathered of a greeting, header or first body */
	u8 flags; /* of the frame at hand */
	u8 index; /* of the frame in its message, at most 255 */
	u8 shape; /* of the message */
	u8 cut;	  /* the body at hand is not handed on */
	u8 syn;	  /* what sent_bytes counts too much */
	u8 known; /* it has carried ZMTP */
	u8 failures;
	u8 unused[7];
	u8 head[128]; /* 64 are used; the rest is for the verifier */
};

struct connection {
	struct stream streams[2];
	struct ends ends;
};

struct work {
	u64 inode;
	u64 position;
	u64 start; /* of the segment at hand, in the stream */
	u64 end;
	u64 at; /* user address of position */
	u64 unsent; /* the first byte that was not handed on or cut */
	u64 flush_to;
	u64 messages;
	u64 t;
	u32 tgid;
	u32 direction;
	u32 trial; /* walk, and hand on nothing */
	u32 unsent_begins;
	struct ends ends;
	struct stream stream;
	struct record record;
	u8 data[CHUNK]; /* follows record without a gap */
};

_Static_assert(__builtin_offsetof(struct work, data) == __builtin_offsetof(struct work, record) + sizeof(struct record),
	       "a record is one run of bytes");

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
	UINT(max_entries, 1 << 24);
} ring SEC(".maps");

struct {
	UINT(type, MAP_PERCPU_ARRAY);
	UINT(max_entries, 1);
	TYPE(key, u32);
	TYPE(value, struct work);
} works SEC(".maps");

enum counter { RECORDS_SENT = 0, RECORDS_LOST = 1, CONNECTIONS_LOST = 2, BYTES_CUT = 3, COUNTERS = 4 };

struct {
	UINT(type, MAP_PERCPU_ARRAY);
	UINT(max_entries, COUNTERS);
	TYPE(key, u32);
	TYPE(value, u64);
} counters SEC(".maps");

INLINE void count(u32 which, u64 n)
{
	u64 *sum = map_lookup(&counters, &which);

	if (sum)
		*sum += n;
}

INLINE struct work *my_work(void)
{
	u32 zero = 0;

	return map_lookup(&works, &zero);
}
