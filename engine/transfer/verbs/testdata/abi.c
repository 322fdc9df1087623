// Holds abi.h against the installed header.
#include <infiniband/verbs.h>
#include <stddef.h>

#include "../abi.h"

#define SAME(ours, theirs, member) \
	_Static_assert(offsetof(struct ours, member) == offsetof(struct theirs, member), #ours "." #member)
#define SIZE(ours, theirs) _Static_assert(sizeof(struct ours) == sizeof(struct theirs), #ours)
#define VALUE(ours, theirs) _Static_assert((int)ours == (int)theirs, #ours)

_Static_assert(offsetof(struct abi_context, poll_cq) == offsetof(struct ibv_context, ops.poll_cq), "poll_cq");
_Static_assert(offsetof(struct abi_context, req_notify_cq) == offsetof(struct ibv_context, ops.req_notify_cq), "req_notify_cq");
_Static_assert(offsetof(struct abi_context, post_send) == offsetof(struct ibv_context, ops.post_send), "post_send");
SAME(abi_mr, ibv_mr, lkey);
SAME(abi_mr, ibv_mr, rkey);
SAME(abi_comp_channel, ibv_comp_channel, fd);
SAME(abi_qp, ibv_qp, qp_num);
SAME(abi_port_attr, ibv_port_attr, state);
SAME(abi_port_attr, ibv_port_attr, active_mtu);
SAME(abi_port_attr, ibv_port_attr, gid_tbl_len);
SAME(abi_port_attr, ibv_port_attr, lid);
SAME(abi_port_attr, ibv_port_attr, link_layer);
_Static_assert(sizeof(struct abi_port_attr) > sizeof(struct ibv_port_attr), "room for later versions");
SAME(abi_qp_init_attr, ibv_qp_init_attr, send_cq);
SAME(abi_qp_init_attr, ibv_qp_init_attr, recv_cq);
SAME(abi_qp_init_attr, ibv_qp_init_attr, cap);
SAME(abi_qp_init_attr, ibv_qp_init_attr, qp_type);
SAME(abi_qp_init_attr, ibv_qp_init_attr, sq_sig_all);
SIZE(abi_qp_init_attr, ibv_qp_init_attr);
SIZE(abi_qp_cap, ibv_qp_cap);
SIZE(abi_ah_attr, ibv_ah_attr);
_Static_assert(offsetof(struct abi_ah_attr, sgid_index) == offsetof(struct ibv_ah_attr, grh.sgid_index), "sgid_index");
_Static_assert(offsetof(struct abi_ah_attr, hop_limit) == offsetof(struct ibv_ah_attr, grh.hop_limit), "hop_limit");
SAME(abi_ah_attr, ibv_ah_attr, dlid);
SAME(abi_ah_attr, ibv_ah_attr, is_global);
SAME(abi_ah_attr, ibv_ah_attr, port_num);
SIZE(abi_qp_attr, ibv_qp_attr);
SAME(abi_qp_attr, ibv_qp_attr, path_mtu);
SAME(abi_qp_attr, ibv_qp_attr, rq_psn);
SAME(abi_qp_attr, ibv_qp_attr, sq_psn);
SAME(abi_qp_attr, ibv_qp_attr, dest_qp_num);
SAME(abi_qp_attr, ibv_qp_attr, qp_access_flags);
SAME(abi_qp_attr, ibv_qp_attr, ah_attr);
SAME(abi_qp_attr, ibv_qp_attr, max_rd_atomic);
SAME(abi_qp_attr, ibv_qp_attr, max_dest_rd_atomic);
SAME(abi_qp_attr, ibv_qp_attr, min_rnr_timer);
SAME(abi_qp_attr, ibv_qp_attr, port_num);
SAME(abi_qp_attr, ibv_qp_attr, timeout);
SAME(abi_qp_attr, ibv_qp_attr, retry_cnt);
SAME(abi_qp_attr, ibv_qp_attr, rnr_retry);
SIZE(abi_sge, ibv_sge);
SAME(abi_sge, ibv_sge, length);
SAME(abi_sge, ibv_sge, lkey);
SIZE(abi_send_wr, ibv_send_wr);
SAME(abi_send_wr, ibv_send_wr, next);
SAME(abi_send_wr, ibv_send_wr, sg_list);
SAME(abi_send_wr, ibv_send_wr, num_sge);
SAME(abi_send_wr, ibv_send_wr, opcode);
SAME(abi_send_wr, ibv_send_wr, send_flags);
_Static_assert(offsetof(struct abi_send_wr, remote_addr) == offsetof(struct ibv_send_wr, wr.rdma.remote_addr), "remote_addr");
_Static_assert(offsetof(struct abi_send_wr, rkey) == offsetof(struct ibv_send_wr, wr.rdma.rkey), "rkey");
SIZE(abi_wc, ibv_wc);
SAME(abi_wc, ibv_wc, status);
SAME(abi_wc, ibv_wc, vendor_err);

VALUE(ABI_QPS_INIT, IBV_QPS_INIT);
VALUE(ABI_QPS_RTR, IBV_QPS_RTR);
VALUE(ABI_QPS_RTS, IBV_QPS_RTS);
VALUE(ABI_QPS_ERR, IBV_QPS_ERR);
VALUE(ABI_QPT_RC, IBV_QPT_RC);
VALUE(ABI_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE);
VALUE(ABI_SEND_SIGNALED, IBV_SEND_SIGNALED);
VALUE(ABI_ACCESS_LOCAL_WRITE, IBV_ACCESS_LOCAL_WRITE);
VALUE(ABI_ACCESS_REMOTE_WRITE, IBV_ACCESS_REMOTE_WRITE);
VALUE(ABI_LINK_ETHERNET, IBV_LINK_LAYER_ETHERNET);
VALUE(ABI_PORT_ACTIVE, IBV_PORT_ACTIVE);
VALUE(ABI_QP_STATE, IBV_QP_STATE);
VALUE(ABI_QP_ACCESS_FLAGS, IBV_QP_ACCESS_FLAGS);
VALUE(ABI_QP_PKEY_INDEX, IBV_QP_PKEY_INDEX);
VALUE(ABI_QP_PORT, IBV_QP_PORT);
VALUE(ABI_QP_AV, IBV_QP_AV);
VALUE(ABI_QP_PATH_MTU, IBV_QP_PATH_MTU);
VALUE(ABI_QP_TIMEOUT, IBV_QP_TIMEOUT);
VALUE(ABI_QP_RETRY_CNT, IBV_QP_RETRY_CNT);
VALUE(ABI_QP_RNR_RETRY, IBV_QP_RNR_RETRY);
VALUE(ABI_QP_RQ_PSN, IBV_QP_RQ_PSN);
VALUE(ABI_QP_MAX_QP_RD_ATOMIC, IBV_QP_MAX_QP_RD_ATOMIC);
VALUE(ABI_QP_MIN_RNR_TIMER, IBV_QP_MIN_RNR_TIMER);
VALUE(ABI_QP_SQ_PSN, IBV_QP_SQ_PSN);
VALUE(ABI_QP_MAX_DEST_RD_ATOMIC, IBV_QP_MAX_DEST_RD_ATOMIC);
VALUE(ABI_QP_DEST_QPN, IBV_QP_DEST_QPN);
