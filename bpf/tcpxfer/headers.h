/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* Walking a call header by header. */
#pragma once
#include "transfer.h"

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
