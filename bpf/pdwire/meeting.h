/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* Which sockets are followed, and from where. */
#pragma once
#include "frames.h"

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
