/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* Handing bytes on, or saying how many were not. */
#pragma once
#include "stream.h"

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
