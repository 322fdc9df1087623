//go:build ignore

/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * The control connections of prefill and decode: ZMTP 3 with NULL security over
 * TCP, known by its greeting. Both directions are walked frame by frame, and
 * what is handed on is the bytes of messages whose first frame has a shape that
 * this project knows (shapes.h). The bodies of all others, of AUX_DATA's content
 * and of frames beyond MAX_FRAME never leave the kernel: in their place goes a
 * record that says how long they were.
 *
 * A direction whose frame boundary is not known is not handed on at all. It is
 * joined again at a call that holds whole messages of known shapes and nothing
 * else.
 */
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

INLINE void fill_record(struct work *w, u8 kind, u64 offset, u64 length)
{
	struct record *r = &w->record;

	r->t = w->t;
	r->inode = w->inode;
	r->offset = offset;
	r->length = length;
	r->tgid = w->tgid;
	r->kind = kind;
	r->direction = w->direction;
	r->flags = 0;
	r->reason = 0;
	r->ends = w->ends;
}

INLINE void hand_on(struct work *w, u64 length)
{
	count(ringbuf_output(&ring, &w->record, sizeof(w->record) + length, NO_WAKEUP) ? RECORDS_LOST : RECORDS_SENT, 1);
}

INLINE void tell(struct work *w, u8 kind, u8 reason)
{
	fill_record(w, kind, w->position, 0);
	w->record.reason = reason;
	hand_on(w, 0);
}

INLINE u32 lose(struct work *w, u8 reason)
{
	if (!w->trial && w->stream.state != LOST)
		tell(w, BLIND, reason);
	w->stream.state = LOST;
	return STOPPED;
}

/* flush_chunk hands on the next bytes up to flush_to. */
CHECKED_ALONE int flush_chunk(void)
{
	struct work *w = my_work();
	u64 left, n;

	if (!w)
		return STOPPED;
	if (w->unsent >= w->flush_to)
		return DONE;
	left = w->flush_to - w->unsent;
	fill_record(w, DATA, w->unsent, left);
	if (w->unsent_begins)
		w->record.flags = BEGINS;
	w->unsent_begins = 0;
	if (left >= CHUNK) {
		w->record.length = CHUNK;
		if (read_user(w->data, CHUNK, (void *)(w->at - (w->position - w->unsent))))
			return STOPPED;
		hand_on(w, CHUNK);
		w->unsent += CHUNK;
		return GOING;
	}
	n = BOUND(left, CHUNK);
	if (read_user(w->data, n, (void *)(w->at - (w->position - w->unsent))))
		return STOPPED;
	hand_on(w, n);
	w->unsent += n;
	return DONE;
}

/* One call moves no more than this many chunks: 16 MiB. */
#define MAX_CHUNKS 1024

CHECKED_ALONE int flush_all(void)
{
	int outcome = GOING;

	for (int i = 0; i < MAX_CHUNKS && outcome == GOING; i++)
		outcome = flush_chunk();
	return outcome;
}

INLINE void flush(struct work *w, u64 to)
{
	if (w->trial)
		return;
	w->flush_to = to;
	if (flush_all() != DONE)
		lose(w, FAULT);
}

/* flush_head hands on the beginning of a body that an earlier call held. */
INLINE void flush_head(struct work *w, u64 body)
{
	u64 n = BOUND(w->start - body, 16);

	if (w->trial)
		return;
	fill_record(w, DATA, body, n);
	if (w->unsent_begins)
		w->record.flags = BEGINS;
	w->unsent_begins = 0;
	__builtin_memcpy(w->data, w->stream.head, SHAPE_BYTES);
	hand_on(w, n);
	w->unsent = w->start;
}

INLINE void cut_body(struct work *w, u64 body)
{
	struct stream *s = &w->stream;

	s->cut = 1;
	if (w->trial)
		return;
	if (w->unsent < body)
		flush(w, body);
	fill_record(w, CUT, body, s->body_end - body);
	hand_on(w, 0);
	count(BYTES_CUT, s->body_end - body);
	w->unsent = s->body_end;
}

INLINE void end_frame(struct work *w)
{
	struct stream *s = &w->stream;

	s->state = HEADER;
	s->have = 0;
	s->cut = 0;
	if (s->flags & FRAME_COMMAND)
		return;
	if (s->flags & FRAME_MORE) {
		if (s->index < 255)
			s->index++;
		return;
	}
	s->index = 0;
	w->messages++;
}

INLINE u32 take_body(struct work *w)
{
	struct stream *s = &w->stream;
	u64 n = w->end - w->position;

	if (n > s->body_end - w->position)
		n = s->body_end - w->position;
	w->position += n;
	w->at += n;
	if (w->position < s->body_end)
		return GOING;
	end_frame(w);
	return GOING;
}

/* gather copies bytes to head until it holds want; GOING: it does. */
INLINE u32 gather(struct work *w, u64 want)
{
	struct stream *s = &w->stream;
	u64 left = w->end - w->position, have = BOUND(s->have, 64), n;

	if (have >= want)
		return GOING;
	n = want - have;
	if (left < n)
		n = left;
	n = BOUND(n, 128);
	if (n > 64)
		return STOPPED;
	if (read_user(s->head + have, n, (void *)w->at))
		return lose(w, FAULT);
	s->have = have + n;
	w->position += n;
	w->at += n;
	return s->have < want ? DONE : GOING;
}

INLINE u32 take_greeting(struct work *w)
{
	struct stream *s = &w->stream;
	u32 outcome;

	/* The 64th byte is beyond what one mask of gather allows: it is taken
	 * with the header state. */
	outcome = gather(w, GREETING_BYTES - 1);
	if (outcome != GOING)
		return outcome;
	if (w->position >= w->end)
		return DONE;
	w->position++;
	w->at++;
	if (s->head[0] != 0xff || s->head[9] != 0x7f) {
		s->state = DEAF;
		return STOPPED;
	}
	if (s->head[10] < 3 || s->head[12] != 'N' || s->head[13] != 'U' || s->head[14] != 'L' || s->head[15] != 'L' || s->head[16]) {
		tell(w, REFUSED, 0);
		s->state = DEAF;
		return STOPPED;
	}
	tell(w, OPENED, 0);
	s->known = 1;
	s->state = HEADER;
	s->have = 0;
	s->index = 0;
	w->unsent = w->position;
	return GOING;
}

/* begin_body judges a frame by its header. */
INLINE u32 begin_body(struct work *w, u64 size)
{
	struct stream *s = &w->stream;

	if (size >> 62)
		return lose(w, FRAME);
	s->have = 0;
	s->state = BODY;
	s->body_end = w->position + size;
	if (s->flags & FRAME_COMMAND) {
		if (!size)
			return lose(w, FRAME);
		cut_body(w, w->position);
		return GOING;
	}
	if (!s->index) {
		s->shape = UNKNOWN;
		if (size) {
			s->state = FIRST;
			return GOING;
		}
	}
	if (!size) {
		if (w->trial && s->shape == UNKNOWN)
			return lose(w, FRAME);
		end_frame(w);
	} else if (is_content(s->shape, s->index) || size > MAX_FRAME) {
		cut_body(w, w->position);
	}
	return GOING;
}

INLINE u32 take_header(struct work *w)
{
	struct stream *s = &w->stream;
	u64 size = 0;
	u32 outcome;

	if (!s->have && !s->index && w->unsent == w->position)
		w->unsent_begins = 1;
	outcome = gather(w, 1);
	if (outcome != GOING)
		return outcome;
	s->flags = s->head[0];
	if (s->flags & ~FRAME_KNOWN || (s->flags & FRAME_COMMAND && s->flags & FRAME_MORE))
		return lose(w, FRAME);
	outcome = gather(w, s->flags & FRAME_LONG ? 9 : 2);
	if (outcome != GOING)
		return outcome;
	if (s->flags & FRAME_LONG) {
		__builtin_memcpy(&size, s->head + 1, 8);
		size = __builtin_bswap64(size);
	} else {
		size = s->head[1];
	}
	return begin_body(w, size);
}

/* take_first looks at the beginning of a message's first body. */
INLINE u32 take_first(struct work *w)
{
	struct stream *s = &w->stream;
	u64 body = w->position - s->have, size = s->body_end - body;
	u32 outcome = gather(w, size < SHAPE_BYTES ? size : SHAPE_BYTES);

	if (outcome != GOING)
		return outcome;
	s->state = BODY;
	s->shape = shape_of(s->head, s->have, size);
	if (s->shape == UNKNOWN && w->trial)
		return lose(w, FRAME);
	if (s->shape == UNKNOWN || size > MAX_FRAME)
		cut_body(w, body);
	else if (body < w->start)
		flush_head(w, body);
	s->have = 0;
	return take_body(w);
}

/* step takes the next part of a frame. */
CHECKED_ALONE int step(void)
{
	struct work *w = my_work();

	if (!w)
		return STOPPED;
	if (w->position >= w->end)
		return DONE;
	switch (w->stream.state) {
	case GREETING:
		return take_greeting(w);
	case HEADER:
		return take_header(w);
	case FIRST:
		return take_first(w);
	case BODY:
		return take_body(w);
	}
	return STOPPED;
}

/* A segment is walked in this many parts of frames at most: MAX_STEPS squared
 * over four. */
#define MAX_STEPS 512

CHECKED_ALONE int walk_some(void)
{
	int outcome = GOING;

	for (int i = 0; i < MAX_STEPS && outcome == GOING; i++)
		outcome = step();
	return outcome;
}

CHECKED_ALONE int walk(void)
{
	int outcome = GOING;

	for (int i = 0; i < MAX_STEPS / 4 && outcome == GOING; i++)
		outcome = walk_some();
	return outcome;
}

/* settle hands on what a segment's walk left over. What was gathered of a first
 * body waits until its shape is known. */
INLINE void settle(struct work *w)
{
	struct stream *s = &w->stream;
	u64 to = w->position;

	if (s->state == FIRST)
		to -= s->have;
	if (s->state == HEADER || s->state == FIRST || (s->state == BODY && !s->cut)) {
		if (w->unsent < to)
			flush(w, to);
	}
}

/* walk_call walks all segments of a call. */
INLINE void walk_call(struct work *w, const struct call *call)
{
	u64 at, length, stop = w->position + call->moved;
	int outcome;

	for (u64 k = 0; k < MAX_SEGMENTS; k++) {
		if (w->position >= stop || !segment(call, k, &at, &length))
			break;
		w->at = at;
		w->start = w->position;
		if (w->unsent < w->start)
			w->unsent = w->start;
		if (w->stream.state == BODY && w->stream.cut && w->unsent < w->stream.body_end)
			w->unsent = w->stream.body_end;
		w->end = length < stop - w->position ? w->position + length : stop;
		outcome = walk();
		if (outcome != DONE) {
			if (outcome == GOING)
				lose(w, SEGMENTS);
			return;
		}
		settle(w);
	}
	if (w->position != stop && w->stream.state < LOST)
		lose(w, SEGMENTS);
}

/* try walks a call that may be the beginning of messages, handing on nothing;
 * it says whether it was whole messages of known shapes. */
INLINE int try(struct work *w, const struct call *call)
{
	u64 start = w->position;
	int fits;

	w->trial = 1;
	w->messages = 0;
	w->stream.state = HEADER;
	w->stream.have = 0;
	w->stream.index = 0;
	w->stream.cut = 0;
	walk_call(w, call);
	fits = w->stream.state == HEADER && !w->stream.have && !w->stream.index && w->messages;
	w->trial = 0;
	w->position = start;
	w->stream.state = LOST;
	return fits;
}

/* Calls of an unknown connection that are tried before it is let go. */
#define MAX_FAILURES 64

/* enter decides whether, and from where, the call is walked. */
INLINE int enter(struct work *w, const struct call *call)
{
	struct stream *s = &w->stream;

	if (s->state == DEAF)
		return 0;
	if (s->state == NEW) {
		/* The SYN of a connection that this side opened counts as a byte. */
		if (w->direction == SENT && w->position == 1) {
			s->syn = 1;
			w->position = 0;
		}
		s->position = w->position;
		s->state = w->position ? LOST : GREETING;
	} else if (s->state != LOST && w->position != s->position) {
		lose(w, HOLE);
	}
	if (s->state != LOST)
		return 1;
	if (!try(w, call)) {
		if (s->failures < MAX_FAILURES)
			s->failures++;
		return 0;
	}
	s->known = 1;
	s->state = HEADER;
	s->have = 0;
	s->index = 0;
	s->cut = 0;
	tell(w, JOINED, 0);
	return 1;
}

/* first_byte says whether an unknown socket may be ZMTP: it begins with 0xff, or
 * its beginning went by. */
INLINE int first_byte(const struct call *call, u64 position)
{
	u64 at, length;
	u8 byte = 0;

	if (position > (call->direction == SENT))
		return 1;
	if (!segment(call, 0, &at, &length) || read_user(&byte, 1, (void *)at))
		return 0;
	return byte == 0xff;
}

INLINE struct connection *meet(struct work *w, const struct call *call)
{
	struct connection *fresh;
	u8 one = 1;

	if (!is_tcp(call->sk) || !first_byte(call, w->position)) {
		map_update(&others, &w->inode, &one, ANY);
		return 0;
	}
	__builtin_memset(&w->stream, 0, sizeof(w->stream));
	/* The value is built where there is room for it. */
	fresh = (void *)w->data;
	__builtin_memset(fresh, 0, sizeof(*fresh));
	take_ends(&fresh->ends, call->sk);
	if (map_update(&connections, &w->inode, fresh, NOEXIST)) {
		count(CONNECTIONS_LOST, 1);
		return 0;
	}
	return map_lookup(&connections, &w->inode);
}

/* part lets go of a connection that is none of ours. */
INLINE void part(struct work *w, struct connection *c)
{
	u8 one = 1;

	if (c->streams[SENT].known || c->streams[RECEIVED].known)
		return;
	if (w->stream.state != DEAF && w->stream.failures < MAX_FAILURES)
		return;
	map_update(&others, &w->inode, &one, ANY);
	map_delete(&connections, &w->inode);
}

INLINE u64 position_of(const struct call *call, const struct connection *c)
{
	u64 expected = UNKNOWN_POSITION, syn = 0;

	if (call->direction == SENT) {
		if (c && c->streams[SENT].state != NEW) {
			syn = c->streams[SENT].syn;
			expected = c->streams[SENT].position + call->moved + syn;
		}
		return sent_bytes(call->sk, expected) - call->moved - syn;
	}
	if (c && c->streams[RECEIVED].state != NEW)
		expected = c->streams[RECEIVED].position + call->moved;
	return received_bytes(call->sk, expected) - call->moved;
}

SEC("raw_tp/sys_exit")
int pdwire_exit(struct raw_tracepoint_args *ctx)
{
	struct call call = {};
	struct connection *c;
	struct stream *mine;
	struct work *w;
	int follow;
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
	w->direction = call.direction;
	w->trial = 0;
	w->unsent_begins = 0;
	if (!call.moved) {
		if (c && call.direction == RECEIVED && (call.asked || call.segments)) {
			w->ends = c->ends;
			tell(w, CLOSED, 0);
			map_delete(&connections, &call.inode);
		}
		return 0;
	}
	w->position = position_of(&call, c);
	if (!c)
		c = meet(w, &call);
	if (!c)
		return 0;
	mine = call.direction == SENT ? &c->streams[SENT] : &c->streams[RECEIVED];
	w->ends = c->ends;
	w->stream = *mine;
	w->unsent = w->position;
	follow = enter(w, &call);
	after = w->position + call.moved;
	w->unsent = w->position;
	if (follow)
		walk_call(w, &call);
	w->stream.position = after;
	*mine = w->stream;
	part(w, c);
	return 0;
}

char terms[] SEC("license") = "GPL";
