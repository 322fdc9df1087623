/* SPDX-License-Identifier: Apache-2.0 */
/* What this package uses of the ABI of libibverbs, which has been stable since
 * rdma-core v13, so that no header of it is needed. TestTheABIIsTheLibrarys holds
 * each size and offset against the real header. Everything else of a struct is
 * left out, or padding. */
#pragma once

#include <stdint.h>

enum {
	ABI_QPS_INIT = 1,
	ABI_QPS_RTR = 2,
	ABI_QPS_RTS = 3,
	ABI_QPS_ERR = 6,
	ABI_QPT_RC = 2,
	ABI_WR_RDMA_WRITE = 0,
	ABI_SEND_SIGNALED = 2,
	ABI_ACCESS_LOCAL_WRITE = 1,
	ABI_ACCESS_REMOTE_WRITE = 2,
	ABI_LINK_ETHERNET = 2,
	ABI_PORT_ACTIVE = 4,
};

/* Which members of a qp_attr count. */
enum {
	ABI_QP_STATE = 1 << 0,
	ABI_QP_ACCESS_FLAGS = 1 << 3,
	ABI_QP_PKEY_INDEX = 1 << 4,
	ABI_QP_PORT = 1 << 5,
	ABI_QP_AV = 1 << 7,
	ABI_QP_PATH_MTU = 1 << 8,
	ABI_QP_TIMEOUT = 1 << 9,
	ABI_QP_RETRY_CNT = 1 << 10,
	ABI_QP_RNR_RETRY = 1 << 11,
	ABI_QP_RQ_PSN = 1 << 12,
	ABI_QP_MAX_QP_RD_ATOMIC = 1 << 13,
	ABI_QP_MIN_RNR_TIMER = 1 << 15,
	ABI_QP_SQ_PSN = 1 << 16,
	ABI_QP_MAX_DEST_RD_ATOMIC = 1 << 17,
	ABI_QP_DEST_QPN = 1 << 20,
};

struct abi_device;
struct abi_pd;
struct abi_cq;
struct abi_qp;
struct abi_send_wr;
struct abi_wc;

/* The inline functions of the header go through the context's operations. */
struct abi_context {
	struct abi_device *device;
	void *before_poll_cq[11];
	int (*poll_cq)(struct abi_cq *, int, struct abi_wc *);
	int (*req_notify_cq)(struct abi_cq *, int);
	void *before_post_send[12];
	int (*post_send)(struct abi_qp *, struct abi_send_wr *, struct abi_send_wr **);
};

struct abi_mr {
	struct abi_context *context;
	struct abi_pd *pd;
	void *addr;
	size_t length;
	uint32_t handle;
	uint32_t lkey;
	uint32_t rkey;
};

struct abi_comp_channel {
	struct abi_context *context;
	int fd;
	int refcnt;
};

struct abi_qp {
	struct abi_context *context;
	void *qp_context;
	struct abi_pd *pd;
	struct abi_cq *send_cq;
	struct abi_cq *recv_cq;
	void *srq;
	uint32_t handle;
	uint32_t qp_num;
};

struct abi_port_attr {
	uint32_t state;
	uint32_t max_mtu;
	uint32_t active_mtu;
	int32_t gid_tbl_len;
	uint8_t pad[18];
	uint16_t lid;
	uint8_t pad2[10];
	uint8_t link_layer;
	uint8_t rest[81]; /* for what later versions fill in */
};

struct abi_qp_cap {
	uint32_t max_send_wr;
	uint32_t max_recv_wr;
	uint32_t max_send_sge;
	uint32_t max_recv_sge;
	uint32_t max_inline_data;
};

struct abi_qp_init_attr {
	void *qp_context;
	struct abi_cq *send_cq;
	struct abi_cq *recv_cq;
	void *srq;
	struct abi_qp_cap cap;
	uint32_t qp_type;
	int32_t sq_sig_all;
};

struct abi_ah_attr {
	uint8_t dgid[16];
	uint32_t flow_label;
	uint8_t sgid_index;
	uint8_t hop_limit;
	uint8_t traffic_class;
	uint8_t pad;
	uint16_t dlid;
	uint8_t sl;
	uint8_t src_path_bits;
	uint8_t static_rate;
	uint8_t is_global;
	uint8_t port_num;
	uint8_t pad2;
};

struct abi_qp_attr {
	uint32_t qp_state;
	uint32_t cur_qp_state;
	uint32_t path_mtu;
	uint32_t path_mig_state;
	uint32_t qkey;
	uint32_t rq_psn;
	uint32_t sq_psn;
	uint32_t dest_qp_num;
	uint32_t qp_access_flags;
	struct abi_qp_cap cap;
	struct abi_ah_attr ah_attr;
	struct abi_ah_attr alt_ah_attr;
	uint16_t pkey_index;
	uint16_t alt_pkey_index;
	uint8_t en_sqd_async_notify;
	uint8_t sq_draining;
	uint8_t max_rd_atomic;
	uint8_t max_dest_rd_atomic;
	uint8_t min_rnr_timer;
	uint8_t port_num;
	uint8_t timeout;
	uint8_t retry_cnt;
	uint8_t rnr_retry;
	uint8_t alt_port_num;
	uint8_t alt_timeout;
	uint8_t pad;
	uint32_t rate_limit;
	uint32_t pad2;
};

struct abi_sge {
	uint64_t addr;
	uint32_t length;
	uint32_t lkey;
};

struct abi_send_wr {
	uint64_t wr_id;
	struct abi_send_wr *next;
	struct abi_sge *sg_list;
	int32_t num_sge;
	uint32_t opcode;
	uint32_t send_flags;
	uint32_t imm_data;
	uint64_t remote_addr; /* wr.rdma */
	uint32_t rkey;
	uint32_t pad;
	uint8_t rest[72];
};

struct abi_wc {
	uint64_t wr_id;
	uint32_t status;
	uint32_t opcode;
	uint32_t vendor_err;
	uint32_t byte_len;
	uint32_t imm_data;
	uint32_t qp_num;
	uint32_t src_qp;
	uint32_t wc_flags;
	uint16_t pkey_index;
	uint16_t slid;
	uint8_t sl;
	uint8_t dlid_path_bits;
};
