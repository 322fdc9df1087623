// A libibverbs for tests: what the real one exports, with the same versions,
// over a provider that needs no hardware. It is built against the real header,
// so that the layouts that the probes read are those of the installed version.
#include <infiniband/verbs.h>
#include <stdlib.h>
#include <string.h>

struct ibv_context *stub_new_context(void);

// What the real library passes to every way of opening a device. A device is the
// function of a provider that makes its context; NULL: of the one that is linked.
__attribute__((noinline)) struct ibv_context *open_34(struct ibv_context *(*device)(void))
{
	return device ? device() : stub_new_context();
}
__asm__(".symver open_34, verbs_open_device@@IBVERBS_PRIVATE_34");

int modify_1_1(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	if (mask & IBV_QP_STATE)
		qp->state = attr->qp_state;
	return 0;
}
__asm__(".symver modify_1_1, ibv_modify_qp@@IBVERBS_1.1");

// The twin for programs of 2006: nothing is to be seen here.
int modify_1_0(void) { return 1; }
__asm__(".symver modify_1_0, ibv_modify_qp@IBVERBS_1.0");

static unsigned next_key = 0x100;

static struct ibv_mr *registered(struct ibv_pd *pd, void *addr, size_t length)
{
	struct ibv_mr *mr = calloc(1, sizeof(*mr));

	mr->pd = pd;
	mr->addr = addr;
	mr->length = length;
	mr->lkey = next_key++;
	mr->rkey = next_key++;
	return mr;
}

__attribute__((noinline)) struct ibv_mr *reg_iova2(struct ibv_pd *pd, void *addr, size_t length,
						   uint64_t iova, unsigned int access)
{
	return registered(pd, addr, length);
}
__asm__(".symver reg_iova2, ibv_reg_mr_iova2@@IBVERBS_1.8");

__attribute__((noinline)) struct ibv_mr *reg_dmabuf(struct ibv_pd *pd, uint64_t offset,
						    size_t length, uint64_t iova, int fd, int access)
{
	return registered(pd, (void *)offset, length);
}
__asm__(".symver reg_dmabuf, ibv_reg_dmabuf_mr@@IBVERBS_1.12");

int dereg_1_1(struct ibv_mr *mr) { free(mr); return 0; }
__asm__(".symver dereg_1_1, ibv_dereg_mr@@IBVERBS_1.1");

int destroy_1_1(struct ibv_qp *qp) { free(qp); return 0; }
__asm__(".symver destroy_1_1, ibv_destroy_qp@@IBVERBS_1.1");

int close_1_1(struct ibv_context *context) { free(context); return 0; }
__asm__(".symver close_1_1, ibv_close_device@@IBVERBS_1.1");

struct ibv_qp_ex *to_ex_1_6(struct ibv_qp *qp) { return (struct ibv_qp_ex *)qp; }
__asm__(".symver to_ex_1_6, ibv_qp_to_qp_ex@@IBVERBS_1.6");
