/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* Records of the UCX probes, as user space reads them (sidecar/source/ucp). */
#pragma once
#include "records.h"

#define ID_BYTES 16 /* of the beginning of a worker's address */

enum kind {
	KIND_WORKER = 1, /* a worker's address was asked for */
	KIND_WORKER_GONE,
	KIND_ENDPOINT, /* one was made */
	KIND_ENDPOINT_GONE,
	KIND_REGION,
	KIND_REGION_GONE,
	KIND_MOVED, /* bytes were put or got */
	KIND_FLUSHED, /* of an endpoint or a worker */
	KIND_DONE, /* a request was found to be over */
	KIND_BYPASS, /* the process gets at the memory of another by itself */
};

#define OP_PUT 0
#define OP_GET 1

/* A worker's address begins with a byte about its format and a number that is
 * random for each worker: enough to know it again, and nothing of what may lie
 * behind it. */
struct worker {
	struct head head;
	u64 worker;
	u8 id[ID_BYTES];
};

struct endpoint {
	struct head head;
	u64 endpoint;
	u64 worker; /* whose */
	u8 id[ID_BYTES]; /* of the worker that it leads to */
	u32 by_address; /* 0: it was made from a socket's address or a request */
	u32 pad;
};

struct region {
	struct head head;
	u64 memh;
	u64 addr;
	u64 bytes;
	u32 memory; /* ucs_memory_type_t, where known is set */
	u32 known;
};

struct moved {
	struct head head;
	u64 endpoint;
	u64 remote;
	u64 local;
	u64 bytes; /* 0: not known, see the flags */
	u64 returned; /* 0: at once; an address: a request; else minus an error */
	u32 op;
	u32 pad;
};

struct flushed {
	struct head head;
	u64 what; /* an endpoint, or a worker */
	u64 returned;
	u32 of_worker;
	u32 pad;
};

struct done {
	struct head head;
	u64 request;
	s64 status;
};
