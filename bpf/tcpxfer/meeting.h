/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* Which sockets are followed, and from where. */
#pragma once
#include "headers.h"

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
