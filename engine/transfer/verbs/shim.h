/* SPDX-License-Identifier: Apache-2.0 */
/* What Go calls. Each function is one step; which steps, and when, is Go's. A
 * return of int is 0 or an errno, one of a pointer NULL with errno set. */
#pragma once

#include "abi.h"

/* A libibverbs that was loaded. It is never unloaded. */
struct shim_library;

struct shim_library *shim_load(const char *path, char *why, size_t room);

struct abi_device **shim_devices(struct shim_library *, int *count);
void shim_free_devices(struct shim_library *, struct abi_device **);
const char *shim_device_name(struct shim_library *, struct abi_device **, int index);
struct abi_context *shim_open(struct shim_library *, struct abi_device **, int index);
int shim_close(struct shim_library *, struct abi_context *);
int shim_port(struct shim_library *, struct abi_context *, uint8_t port, struct abi_port_attr *);
int shim_gid(struct shim_library *, struct abi_context *, uint8_t port, int index, uint8_t gid[16]);

struct abi_pd *shim_alloc_pd(struct shim_library *, struct abi_context *);
int shim_dealloc_pd(struct shim_library *, struct abi_pd *);
struct abi_mr *shim_register(struct shim_library *, struct abi_pd *, uintptr_t addr, size_t length, int access);
int shim_deregister(struct shim_library *, struct abi_mr *);
struct abi_comp_channel *shim_create_channel(struct shim_library *, struct abi_context *);
int shim_destroy_channel(struct shim_library *, struct abi_comp_channel *);
struct abi_cq *shim_create_cq(struct shim_library *, struct abi_context *, int depth, struct abi_comp_channel *);
int shim_destroy_cq(struct shim_library *, struct abi_cq *);
struct abi_qp *shim_create_qp(struct shim_library *, struct abi_pd *, struct abi_cq *, uint32_t depth);
int shim_destroy_qp(struct shim_library *, struct abi_qp *);
int shim_modify_qp(struct shim_library *, struct abi_qp *, struct abi_qp_attr *, int mask);

/* Asks for one event when something is next completed. */
int shim_arm(struct abi_context *, struct abi_cq *);
/* Takes one event; EAGAIN where there is none. */
int shim_event(struct shim_library *, struct abi_comp_channel *);

/* One RDMA WRITE. */
struct shim_write {
	uint64_t id;
	uint64_t local;
	uint64_t remote;
	uint32_t length;
	uint32_t lkey;
	uint32_t rkey;
	uint32_t pad;
};

/* One completion. */
struct shim_done {
	uint64_t id;
	uint32_t status;
	uint32_t vendor;
};

#define SHIM_CHAIN 64

/* Posts up to SHIM_CHAIN writes as one chain; posted is how many were taken. */
int shim_post(struct abi_context *, struct abi_qp *, const struct shim_write *, int n, int *posted);
/* Takes up to SHIM_CHAIN completions; negative: the queue is broken. */
int shim_poll(struct abi_context *, struct abi_cq *, struct shim_done *, int n);
