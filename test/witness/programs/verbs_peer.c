// What an engine does with libibverbs, for verbs_peer.py: devices, queue pairs and
// requests, over the stub of bpf/verbs/testdata, which moves nothing.
#include <infiniband/verbs.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct ibv_context *verbs_open_device(void *, void *);

// A device is the function of a provider that makes its context; 0: of the first.
void *peer_open(void *device) { return verbs_open_device(device, NULL); }

void peer_close(void *context) { ibv_close_device(context); }

// peer_connect connects a queue pair, which a provider made, to number on this host.
void peer_connect(struct ibv_qp *qp, uint32_t number, const uint8_t *gid)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT };

	ibv_modify_qp(qp, &attr, IBV_QP_STATE);
	attr.qp_state = IBV_QPS_RTR;
	attr.dest_qp_num = number;
	attr.ah_attr.is_global = 1;
	memcpy(attr.ah_attr.grh.dgid.raw, gid, 16);
	ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_DEST_QPN);
	attr.qp_state = IBV_QPS_RTS;
	ibv_modify_qp(qp, &attr, IBV_QP_STATE);
}

void peer_destroy(struct ibv_qp *qp) { ibv_destroy_qp(qp); }

uint32_t peer_register(uint64_t address, uint64_t bytes)
{
	return ibv_reg_mr_iova2(NULL, (void *)address, bytes, address, 0)->rkey;
}

#define MOST 4096

// peer_post writes n extents of [from, to, bytes] as one chain.
int peer_post(struct ibv_qp *qp, int n, const uint64_t *moves, int opcode)
{
	static struct ibv_send_wr wr[MOST];
	static struct ibv_sge list[MOST];
	struct ibv_send_wr *bad;

	if (n > MOST)
		return -1;
	memset(wr, 0, sizeof(wr));
	for (int i = 0; i < n; i++, moves += 3) {
		list[i] = (struct ibv_sge){ moves[0], moves[2], 7 };
		wr[i].wr_id = i + 1;
		wr[i].next = i + 1 < n ? &wr[i + 1] : NULL;
		wr[i].sg_list = &list[i];
		wr[i].num_sge = 1;
		wr[i].opcode = opcode;
		wr[i].send_flags = IBV_SEND_SIGNALED;
		wr[i].wr.rdma.remote_addr = moves[1];
		wr[i].wr.rdma.rkey = 42;
	}
	return ibv_post_send(qp, wr, &bad);
}

// peer_flood posts the first move again and again, in chains of n.
void peer_flood(struct ibv_qp *qp, int times, int n, const uint64_t *moves)
{
	while (times--)
		peer_post(qp, n, moves, IBV_WR_RDMA_WRITE);
}

// peer_poll takes what has completed, n at a time.
int peer_poll(void *context)
{
	struct ibv_cq cq = { .context = context };
	struct ibv_wc wc[64];
	int n, sum = 0;

	while ((n = ibv_poll_cq(&cq, 64, wc)) > 0)
		sum += n;
	return sum;
}
