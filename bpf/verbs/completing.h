/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* Completions (opt-in: a return probe taxes every empty poll). */
#pragma once
#include "common.h"

struct wc { /* struct ibv_wc */
	u64 wr_id;
	u32 status, opcode, vendor_err, byte_len, imm, qp_num, src_qp, flags;
	u16 pkey_index, slid;
	u8 sl, dlid_path_bits;
	u16 pad;
};

SEC("uprobe")
int poll_cq(struct pt_regs *ctx)
{
	void *cq = (void *)ctx->di;
	u64 wcs = ctx->dx;
	if (is_watched())
		remember(ctx, (u64)cq, wcs, 0, 0);
	return 0;
}

SEC("uretprobe")
int poll_cq_done(struct pt_regs *ctx)
{
	int n = (int)ctx->ax;
	struct call call;
	u32 slot;

	if (!recall(ctx, &call) || n <= 0)
		return 0;
	struct scratch *s = take(&slot);

	if (!s)
		return 0;
	struct completed *c = &s->completed;

	begin(&c->head, KIND_COMPLETED);
	if (read_user(&c->context, sizeof(c->context), (void *)call.a))
		c->context = 0;
	if (n > MAX_WCS) {
		c->head.flags |= TRUNCATED;
		n = MAX_WCS;
	}
	for (u32 i = 0; i < MAX_WCS; i++) {
		struct wc wc;

		if (i >= n)
			break;
		if (read_user(&wc, sizeof(wc), (void *)(call.b + i * sizeof(wc)))) {
			c->head.flags |= UNREADABLE;
			break;
		}
		c->all[i].wr_id = wc.wr_id;
		c->all[i].qp_num = wc.qp_num;
		c->all[i].status = (u16)wc.status;
		c->all[i].opcode = (u16)wc.opcode;
		c->head.n = i + 1;
	}
	u64 seen = c->head.n;

	asm volatile("" : "+r"(seen));
	if (seen > MAX_WCS)
		seen = MAX_WCS;
	send(c, __builtin_offsetof(struct completed, all) + seen * sizeof(struct completion));
	give(s);
	return 0;
}
