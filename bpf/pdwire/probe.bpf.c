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
#include "meeting.h"

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
