/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* Walking a call frame by frame. */
#pragma once
#include "handing.h"

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
