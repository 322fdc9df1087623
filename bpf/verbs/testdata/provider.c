// A provider that needs no hardware: it takes what is posted, moves nothing, and
// completes what is signalled.
#include <infiniband/verbs.h>
#include <stdlib.h>
#include <string.h>

#define DEPTH 8192
static struct ibv_wc done[DEPTH];
static unsigned head, tail;
static enum ibv_wc_status status = IBV_WC_SUCCESS;

void stub_fail(int with) { status = with; }

static void finish(struct ibv_qp *qp, uint64_t wr_id, int opcode)
{
	struct ibv_wc *wc = &done[tail++ % DEPTH];

	memset(wc, 0, sizeof(*wc));
	wc->wr_id = wr_id;
	wc->qp_num = qp->qp_num;
	wc->status = status;
	wc->opcode = opcode == IBV_WR_RDMA_READ ? IBV_WC_RDMA_READ : IBV_WC_RDMA_WRITE;
}

// stub_ring writes without post_send, as one does who rings the doorbell himself.
void stub_ring(struct ibv_qp *qp, uint64_t wr_id) { finish(qp, wr_id, IBV_WR_RDMA_WRITE); }

// What one asks mlx5's provider for who means to.
int mlx5dv_init_obj(void *obj, uint64_t types) { return obj == NULL && types > 1 ? 1 : 0; }

static int stub_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	int most = 4096; // a chain that loops ends here

	for (; wr && most--; wr = wr->next)
		if (wr->send_flags & IBV_SEND_SIGNALED)
			finish(qp, wr->wr_id, wr->opcode);
	return 0;
}

static int stub_poll_cq(struct ibv_cq *cq, int num, struct ibv_wc *wc)
{
	int n = 0;

	for (; n < num && head != tail; n++)
		wc[n] = done[head++ % DEPTH];
	return n;
}

struct ibv_context *stub_new_context(void)
{
	struct ibv_context *c = calloc(1, sizeof(*c));

	c->ops.post_send = stub_post_send;
	c->ops.poll_cq = stub_poll_cq;
	c->abi_compat = (void *)(uintptr_t)-1;
	return c;
}

// The extended API: each call notes its part of the request.
static void ext_start(struct ibv_qp_ex *qp) {}
static int ext_complete(struct ibv_qp_ex *qp) { return 0; }
static void ext_write(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote)
{
	if (qp->wr_flags & IBV_SEND_SIGNALED)
		finish(&qp->qp_base, qp->wr_id, IBV_WR_RDMA_WRITE);
}
static void ext_write_imm(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote, __be32 imm) { ext_start(qp); }
static void ext_read(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote) { asm volatile(""); }
static void ext_sge(struct ibv_qp_ex *qp, uint32_t lkey, uint64_t addr, uint32_t length) { asm volatile(""); }
static void ext_sges(struct ibv_qp_ex *qp, size_t n, const struct ibv_sge *list) { asm volatile("nop"); }
static void ext_inline(struct ibv_qp_ex *qp, void *addr, size_t length) { asm volatile("nop"); }

struct ibv_qp *stub_new_qp(struct ibv_context *context, uint32_t num)
{
	struct ibv_qp_ex *x = calloc(1, sizeof(*x));

	x->qp_base.context = context;
	x->qp_base.qp_num = num;
	x->wr_start = ext_start;
	x->wr_complete = ext_complete;
	x->wr_rdma_write = ext_write;
	x->wr_rdma_write_imm = ext_write_imm;
	x->wr_rdma_read = ext_read;
	x->wr_set_sge = ext_sge;
	x->wr_set_sge_list = ext_sges;
	x->wr_set_inline_data = ext_inline;
	return &x->qp_base;
}
