//go:build linux && cgo

/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shim.h"

struct shim_library {
	struct abi_device **(*get_device_list)(int *);
	void (*free_device_list)(struct abi_device **);
	const char *(*get_device_name)(struct abi_device *);
	struct abi_context *(*open_device)(struct abi_device *);
	int (*close_device)(struct abi_context *);
	int (*query_port)(struct abi_context *, uint8_t, struct abi_port_attr *);
	int (*query_gid)(struct abi_context *, uint8_t, int, uint8_t *);
	struct abi_pd *(*alloc_pd)(struct abi_context *);
	int (*dealloc_pd)(struct abi_pd *);
	struct abi_mr *(*reg_mr)(struct abi_pd *, void *, size_t, int);
	int (*dereg_mr)(struct abi_mr *);
	struct abi_comp_channel *(*create_comp_channel)(struct abi_context *);
	int (*destroy_comp_channel)(struct abi_comp_channel *);
	struct abi_cq *(*create_cq)(struct abi_context *, int, void *, struct abi_comp_channel *, int);
	int (*destroy_cq)(struct abi_cq *);
	int (*get_cq_event)(struct abi_comp_channel *, struct abi_cq **, void **);
	void (*ack_cq_events)(struct abi_cq *, unsigned int);
	struct abi_qp *(*create_qp)(struct abi_pd *, struct abi_qp_init_attr *);
	int (*destroy_qp)(struct abi_qp *);
	int (*modify_qp)(struct abi_qp *, struct abi_qp_attr *, int);
};

/* find is dlsym: of the versions of a name, the one that new programs get. */
static int find(void *handle, const char *name, void *to, char *why, size_t room)
{
	void *at = dlsym(handle, name);

	if (!at)
		snprintf(why, room, "it has no %s", name);
	else
		memcpy(to, &at, sizeof(at));
	return at != NULL;
}

struct shim_library *shim_load(const char *path, char *why, size_t room)
{
	void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	struct shim_library *l = calloc(1, sizeof(*l));

	if (!handle || !l) {
		snprintf(why, room, "%s", handle ? "no memory" : dlerror());
		free(l);
		return NULL;
	}
	struct {
		const char *name;
		void *to;
	} all[] = {
		{"ibv_get_device_list", &l->get_device_list}, {"ibv_free_device_list", &l->free_device_list},
		{"ibv_get_device_name", &l->get_device_name}, {"ibv_open_device", &l->open_device},
		{"ibv_close_device", &l->close_device}, {"ibv_query_port", &l->query_port},
		{"ibv_query_gid", &l->query_gid}, {"ibv_alloc_pd", &l->alloc_pd},
		{"ibv_dealloc_pd", &l->dealloc_pd}, {"ibv_reg_mr", &l->reg_mr},
		{"ibv_dereg_mr", &l->dereg_mr}, {"ibv_create_comp_channel", &l->create_comp_channel},
		{"ibv_destroy_comp_channel", &l->destroy_comp_channel}, {"ibv_create_cq", &l->create_cq},
		{"ibv_destroy_cq", &l->destroy_cq}, {"ibv_get_cq_event", &l->get_cq_event},
		{"ibv_ack_cq_events", &l->ack_cq_events}, {"ibv_create_qp", &l->create_qp},
		{"ibv_destroy_qp", &l->destroy_qp}, {"ibv_modify_qp", &l->modify_qp},
	};
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		if (!find(handle, all[i].name, all[i].to, why, room)) {
			free(l);
			return NULL;
		}
	return l;
}

struct abi_device **shim_devices(struct shim_library *l, int *count)
{
	*count = 0;
	return l->get_device_list(count);
}

void shim_free_devices(struct shim_library *l, struct abi_device **all) { l->free_device_list(all); }
const char *shim_device_name(struct shim_library *l, struct abi_device **all, int i) { return l->get_device_name(all[i]); }
struct abi_context *shim_open(struct shim_library *l, struct abi_device **all, int i) { return l->open_device(all[i]); }
int shim_close(struct shim_library *l, struct abi_context *c) { return l->close_device(c); }

int shim_port(struct shim_library *l, struct abi_context *c, uint8_t port, struct abi_port_attr *a)
{
	memset(a, 0, sizeof(*a));
	return l->query_port(c, port, a);
}

int shim_gid(struct shim_library *l, struct abi_context *c, uint8_t port, int index, uint8_t gid[16])
{
	errno = 0;
	if (l->query_gid(c, port, index, gid) == 0)
		return 0;
	return errno ? errno : EINVAL;
}

struct abi_pd *shim_alloc_pd(struct shim_library *l, struct abi_context *c) { return l->alloc_pd(c); }
int shim_dealloc_pd(struct shim_library *l, struct abi_pd *pd) { return l->dealloc_pd(pd); }

struct abi_mr *shim_register(struct shim_library *l, struct abi_pd *pd, uintptr_t addr, size_t length, int access)
{
	return l->reg_mr(pd, (void *)addr, length, access);
}

int shim_deregister(struct shim_library *l, struct abi_mr *mr) { return l->dereg_mr(mr); }
struct abi_comp_channel *shim_create_channel(struct shim_library *l, struct abi_context *c) { return l->create_comp_channel(c); }
int shim_destroy_channel(struct shim_library *l, struct abi_comp_channel *ch) { return l->destroy_comp_channel(ch); }

struct abi_cq *shim_create_cq(struct shim_library *l, struct abi_context *c, int depth, struct abi_comp_channel *ch)
{
	return l->create_cq(c, depth, NULL, ch, 0);
}

int shim_destroy_cq(struct shim_library *l, struct abi_cq *cq) { return l->destroy_cq(cq); }

struct abi_qp *shim_create_qp(struct shim_library *l, struct abi_pd *pd, struct abi_cq *cq, uint32_t depth)
{
	struct abi_qp_init_attr a = {
		.send_cq = cq, .recv_cq = cq, .qp_type = ABI_QPT_RC,
		.cap = {.max_send_wr = depth, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
	};

	return l->create_qp(pd, &a);
}

int shim_destroy_qp(struct shim_library *l, struct abi_qp *qp) { return l->destroy_qp(qp); }
int shim_modify_qp(struct shim_library *l, struct abi_qp *qp, struct abi_qp_attr *a, int mask) { return l->modify_qp(qp, a, mask); }

int shim_arm(struct abi_context *c, struct abi_cq *cq) { return c->req_notify_cq(cq, 0); }

int shim_event(struct shim_library *l, struct abi_comp_channel *ch)
{
	struct abi_cq *cq = NULL;
	void *mine = NULL;

	errno = 0;
	if (l->get_cq_event(ch, &cq, &mine) != 0)
		return errno ? errno : EAGAIN;
	l->ack_cq_events(cq, 1);
	return 0;
}

int shim_post(struct abi_context *c, struct abi_qp *qp, const struct shim_write *w, int n, int *posted)
{
	struct abi_send_wr wr[SHIM_CHAIN], *bad = NULL;
	struct abi_sge sge[SHIM_CHAIN];
	int err;

	memset(wr, 0, sizeof(wr));
	for (int i = 0; i < n; i++) {
		sge[i] = (struct abi_sge){.addr = w[i].local, .length = w[i].length, .lkey = w[i].lkey};
		wr[i].wr_id = w[i].id;
		wr[i].next = i + 1 < n ? &wr[i + 1] : NULL;
		wr[i].sg_list = &sge[i];
		wr[i].num_sge = 1;
		wr[i].opcode = ABI_WR_RDMA_WRITE;
		wr[i].send_flags = ABI_SEND_SIGNALED;
		wr[i].remote_addr = w[i].remote;
		wr[i].rkey = w[i].rkey;
	}
	err = c->post_send(qp, wr, &bad);
	*posted = err == 0 ? n : bad ? (int)(bad - wr) : 0;
	return err;
}

int shim_poll(struct abi_context *c, struct abi_cq *cq, struct shim_done *done, int n)
{
	struct abi_wc wc[SHIM_CHAIN];

	n = c->poll_cq(cq, n < SHIM_CHAIN ? n : SHIM_CHAIN, wc);
	for (int i = 0; i < n; i++)
		done[i] = (struct shim_done){.id = wc[i].wr_id, .status = wc[i].status, .vendor = wc[i].vendor_err};
	return n;
}
