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
#include "meeting.h"

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
