/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* Contexts, queue pairs, registrations, and ways around post_send. */
#pragma once
#include "posting.h"

#define CONTEXT_POLL_CQ 96
#define CONTEXT_POST_SEND 208
#define CONTEXT_CMD_FD 264
#define CONTEXT_ABI_COMPAT 320

INLINE void read_ops(u64 context, u64 *post_send, u64 *poll_cq, u64 *abi, u32 *fd)
{
	*post_send = *poll_cq = *abi = *fd = 0;
	read_user(post_send, 8, (void *)(context + CONTEXT_POST_SEND));
	read_user(poll_cq, 8, (void *)(context + CONTEXT_POLL_CQ));
	read_user(abi, 8, (void *)(context + CONTEXT_ABI_COMPAT));
	read_user(fd, 4, (void *)(context + CONTEXT_CMD_FD));
}

/* verbs_open_device returns a context. */
SEC("uretprobe")
int opened(struct pt_regs *ctx)
{
	u64 context = ctx->ax;
	struct context c = {};

	if (!context || !is_watched())
		return 0;
	begin(&c.head, KIND_CONTEXT);
	c.context = context;
	read_ops(context, &c.post_send, &c.poll_cq, &c.abi_compat, &c.cmd_fd);
	send(&c, sizeof(c));
	return 0;
}

SEC("uprobe")
int closed(struct pt_regs *ctx)
{
	u64 context = ctx->di;
	return say_about(context, KIND_CONTEXT_GONE);
}

#define ATTR_STATE 0
#define ATTR_DEST_QPN 28
#define ATTR_DGID 56
#define ATTR_DLID 80
#define ATTR_IS_GLOBAL 85

/* ibv_modify_qp(qp, attr, mask) */
SEC("uprobe")
int modify_qp(struct pt_regs *ctx)
{
	void *qp = (void *)ctx->di;
	void *attr = (void *)ctx->si;
	int mask = (int)ctx->dx;
	struct qp_head head;
	struct qp q = {};
	u8 global = 0;
	u16 dlid = 0;

	if (!is_watched())
		return 0;
	begin(&q.head, KIND_QP);
	if (read_user(&head, sizeof(head), qp))
		return 0;
	q.qp = (u64)qp;
	q.context = head.context;
	q.qp_num = head.qp_num;
	q.mask = mask;
	read_ops(head.context, &q.post_send, &q.poll_cq, &q.abi_compat, &q.cmd_fd);
	read_user(&q.state, sizeof(q.state), attr + ATTR_STATE);
	read_user(&q.dest_qp_num, sizeof(q.dest_qp_num), attr + ATTR_DEST_QPN);
	read_user(&q.dgid, sizeof(q.dgid), attr + ATTR_DGID);
	read_user(&dlid, sizeof(dlid), attr + ATTR_DLID);
	read_user(&global, sizeof(global), attr + ATTR_IS_GLOBAL);
	q.dlid = dlid;
	q.is_global = global;
	send(&q, sizeof(q));
	return 0;
}

SEC("uprobe")
int destroy_qp(struct pt_regs *ctx)
{
	u64 qp = ctx->di;
	return say_about(qp, KIND_QP_GONE);
}

/* ibv_qp_to_qp_ex returns the extended side of a QP, with its functions. */
SEC("uretprobe")
int extended_qp(struct pt_regs *ctx)
{
	u64 qp = ctx->ax;
	struct extended x = {};
	struct qp_head head = {};

	if (!qp || !is_watched())
		return 0;
	begin(&x.head, KIND_EXTENDED);
	read_user(&head, sizeof(head), (void *)qp);
	x.qp = qp;
	x.context = head.context;
	x.qp_num = head.qp_num;
	read_user(&x.functions, sizeof(x.functions), (void *)(qp + QP_EX_FUNCTIONS));
	send(&x, sizeof(x));
	return 0;
}

/* ibv_reg_mr_iova2(pd, addr, length, iova, access) and ibv_reg_dmabuf_mr(pd,
 * offset, length, iova, fd, access): remote sides name the iova. */
SEC("uprobe")
int reg_mr(struct pt_regs *ctx)
{
	u64 addr = ctx->si;
	u64 length = ctx->dx;
	u64 iova = ctx->cx;
	if (is_watched())
		remember(ctx, iova, length, addr, 0);
	return 0;
}

SEC("uprobe")
int reg_dmabuf_mr(struct pt_regs *ctx)
{
	u64 offset = ctx->si;
	u64 length = ctx->dx;
	u64 iova = ctx->cx;
	if (is_watched())
		remember(ctx, iova, length, offset, 1);
	return 0;
}

#define MR_LKEY 36
#define MR_RKEY 40

SEC("uretprobe")
int reg_mr_done(struct pt_regs *ctx)
{
	u64 mr = ctx->ax;
	struct region r = {};
	struct call call;

	if (!recall(ctx, &call) || !mr)
		return 0;
	begin(&r.head, KIND_REGION);
	r.mr = mr;
	r.addr = call.a;
	r.bytes = call.b;
	r.dmabuf = call.d;
	read_user(&r.lkey, sizeof(r.lkey), (void *)(mr + MR_LKEY));
	read_user(&r.rkey, sizeof(r.rkey), (void *)(mr + MR_RKEY));
	send(&r, sizeof(r));
	return 0;
}

SEC("uprobe")
int dereg_mr(struct pt_regs *ctx)
{
	u64 mr = ctx->di;
	return say_about(mr, KIND_REGION_GONE);
}

/* ---- ways around post_send ---------------------------------------------- */

/* say_way tells who called: UCX does, and what is handed to UCX is seen. */
INLINE int say_way(struct pt_regs *ctx)
{
	u64 caller = 0;

	read_user(&caller, sizeof(caller), (void *)ctx->sp);
	return say_about(caller, KIND_BYPASS);
}

#define DV_OBJ_QP 1 /* MLX5DV_OBJ_QP, MLX4DV_OBJ_QP */

/* mlx5dv_init_obj(obj, types) hands out where a QP's queue and doorbell lie. */
SEC("uprobe")
int direct_object(struct pt_regs *ctx)
{
	u64 types = ctx->si;
	return types & DV_OBJ_QP ? say_way(ctx) : 0;
}

#define CREATE_QP 0x500
#define CREATE_DCT 0x710

/* mlx5dv_devx_obj_create(context, command, ...): the command begins with what it
 * is, 16 bits big-endian. */
SEC("uprobe")
int devx_object(struct pt_regs *ctx)
{
	void *command = (void *)ctx->si;
	u16 opcode = 0;

	read_user(&opcode, sizeof(opcode), command);
	opcode = __builtin_bswap16(opcode);
	return opcode == CREATE_QP || opcode == CREATE_DCT ? say_way(ctx) : 0;
}
