/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* Records of the verbs probes, as user space reads them (sidecar/source/verbs). */
#pragma once
#include "records.h"

#define MAX_EXTENTS 64   /* of one record; a chain may need several */
#define MAX_CHAIN   1024 /* work requests followed in one call */
#define SHORT_CHAIN 256  /* before Linux 5.17 */
#define MAX_SGES    32   /* scatter entries of one request */
#define MAX_WCS     64   /* completions of one poll */

/* Functions in struct ibv_qp_ex, from wr_rdma_read to wr_complete. */
#define QP_EX_FUNCTIONS     216
#define QP_EX_NUM_FUNCTIONS 15

enum kind {
	KIND_CONTEXT = 1, /* a device was opened */
	KIND_EXTENDED,    /* a QP with the extended API */
	KIND_QP,          /* a QP was connected */
	KIND_QP_GONE,
	KIND_CONTEXT_GONE,
	KIND_REGION,
	KIND_REGION_GONE,
	KIND_POSTED,
	KIND_COMPLETED,
	KIND_BYPASS, /* the process gets at a QP that is rung without post_send */
};

struct context {
	struct head head;
	u64 context;
	u64 post_send;
	u64 poll_cq;
	u64 abi_compat; /* all ones in a context of this layout */
	u32 cmd_fd; /* of the device's file */
	u32 pad;
};

struct extended {
	struct head head;
	u64 qp;
	u64 context;
	u32 qp_num;
	u32 pad;
	u64 functions[QP_EX_NUM_FUNCTIONS]; /* ibv_qp_ex from wr_rdma_read on */
};

struct qp {
	struct head head;
	u64 qp;
	u64 context;
	u64 post_send; /* of its context, where that was opened unseen */
	u64 poll_cq;
	u64 abi_compat;
	u32 qp_num;
	u32 mask; /* ibv_qp_attr_mask */
	u32 state;
	u32 dest_qp_num;
	u8 dgid[16];
	u32 is_global;
	u32 dlid;
	u32 cmd_fd;
	u32 pad;
};

struct region {
	struct head head;
	u64 mr;
	u64 addr; /* as remote sides name it (iova) */
	u64 bytes;
	u32 rkey;
	u32 lkey;
	u32 dmabuf;
	u32 pad;
};

struct extent {
	u64 remote;
	u64 local;
	u64 bytes;
	u64 wr_id; /* of its last request */
	u32 rkey;
	u32 requests;
	u8 op; /* IBV_WR_ */
	u8 signaled;
	u8 pad[6];
};

struct posted {
	struct head head; /* n extents */
	u64 context;
	u64 qp;
	u32 qp_num;
	u32 requests; /* all of the record's, those that move no bytes one-sided too */
	u64 site; /* which attachment saw it */
	struct extent extents[MAX_EXTENTS];
};

struct completion {
	u64 wr_id;
	u32 qp_num;
	u16 status; /* ibv_wc_status */
	u16 opcode; /* ibv_wc_opcode, where the status is 0 */
};

struct completed {
	struct head head;
	u64 context;
	struct completion all[MAX_WCS];
};
