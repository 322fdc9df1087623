// A libibverbs for tests: the functions that this package calls, over a NIC of this
// process's memory. It is built against the real header, so that what it shares with
// the package is the layout of the installed version. A file "hold" in the folder
// STUB_VERBS keeps it from carrying anything out, "fail" holds the status with which
// the next write ends, "full" how many requests of the next chain are taken; it makes
// "held" when it is given something that it does not carry out.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MOST 256

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
#define LOCK pthread_mutex_lock(&lock)
#define UNLOCK pthread_mutex_unlock(&lock)

struct stub_mr { struct ibv_mr mr; int access; struct stub_mr *next; };
struct stub_pd { struct ibv_pd pd; int users; };
struct stub_cq {
	struct ibv_cq cq;
	struct ibv_wc done[MOST];
	unsigned head, tail;
	int armed, users;
	struct stub_cq *next;
};
struct stub_qp {
	struct ibv_qp qp;
	struct ibv_qp_attr attr;
	struct { struct ibv_send_wr wr; struct ibv_sge sge; } queue[MOST];
	unsigned head, tail;
	struct stub_qp *next;
};
struct stub_channel { struct ibv_comp_channel ch; int in, users; };

static struct stub_mr *mrs;
static struct stub_cq *cqs;
static struct stub_qp *qps;
static unsigned next_key = 0x100, next_qp = 17;
static int open_contexts, running, domains;
static pthread_t nic;
static struct ibv_device device;

static int told(const char *what, int take)
{
	char path[512], text[32] = "";
	int fd, value = -1;

	snprintf(path, sizeof(path), "%s/%s", getenv("STUB_VERBS"), what);
	if ((fd = open(path, O_RDONLY)) < 0)
		return -1;
	if (read(fd, text, sizeof(text) - 1) >= 0)
		value = atoi(text);
	close(fd);
	if (take)
		unlink(path);
	return value;
}

static struct stub_mr *holds(struct ibv_pd *pd, uint32_t key, int remote, uint64_t addr, uint64_t n)
{
	for (struct stub_mr *m = mrs; m; m = m->next)
		if (m->mr.pd == pd && (remote ? m->mr.rkey : m->mr.lkey) == key && addr >= (uint64_t)m->mr.addr &&
		    addr + n <= (uint64_t)m->mr.addr + m->mr.length && (!remote || m->access & IBV_ACCESS_REMOTE_WRITE))
			return m;
	return NULL;
}

static struct stub_qp *numbered(uint32_t n)
{
	for (struct stub_qp *q = qps; q; q = q->next)
		if (q->qp.qp_num == n)
			return q;
	return NULL;
}

static enum ibv_wc_status carry(struct stub_qp *q, struct ibv_send_wr *wr, struct ibv_sge *sge)
{
	struct stub_qp *to = numbered(q->attr.dest_qp_num);
	int status;

	if (q->qp.state != IBV_QPS_RTS)
		return IBV_WC_WR_FLUSH_ERR;
	if ((status = told("fail", 1)) > 0)
		return status;
	if (!holds(q->qp.pd, sge->lkey, 0, sge->addr, sge->length))
		return IBV_WC_LOC_PROT_ERR;
	if (!to || to->qp.state < IBV_QPS_RTR || to->qp.state > IBV_QPS_RTS || to->attr.dest_qp_num != q->qp.qp_num ||
	    to->attr.rq_psn != q->attr.sq_psn)
		return IBV_WC_RETRY_EXC_ERR;
	if (!(to->attr.qp_access_flags & IBV_ACCESS_REMOTE_WRITE) || wr->opcode != IBV_WR_RDMA_WRITE ||
	    !holds(to->qp.pd, wr->wr.rdma.rkey, 1, wr->wr.rdma.remote_addr, sge->length))
		return IBV_WC_REM_ACCESS_ERR;
	memcpy((void *)wr->wr.rdma.remote_addr, (void *)sge->addr, sge->length);
	return IBV_WC_SUCCESS;
}

// work carries out what is queued, and flushes what is queued at a broken pair.
static void work(void)
{
	int held = told("hold", 0) != -1;

	for (struct stub_qp *q = qps; q; q = q->next) {
		struct stub_cq *cq = (struct stub_cq *)q->qp.send_cq;

		for (; q->head != q->tail && (!held || q->qp.state == IBV_QPS_ERR); q->head++) {
			struct ibv_send_wr *wr = &q->queue[q->head % MOST].wr;
			struct ibv_wc *wc = &cq->done[cq->tail++ % MOST];

			memset(wc, 0, sizeof(*wc));
			wc->wr_id = wr->wr_id;
			wc->qp_num = q->qp.qp_num;
			wc->status = carry(q, wr, &q->queue[q->head % MOST].sge);
			if (wc->status != IBV_WC_SUCCESS)
				q->qp.state = IBV_QPS_ERR;
		}
	}
	for (struct stub_cq *cq = cqs; cq; cq = cq->next)
		if (cq->armed && cq->head != cq->tail && cq->cq.channel) {
			cq->armed = 0;
			if (write(((struct stub_channel *)cq->cq.channel)->in, &cq, sizeof(cq)) != sizeof(cq))
				abort();
		}
}

static void *run(void *unused)
{
	for (;;) {
		LOCK;
		if (!open_contexts) {
			running = 0;
			UNLOCK;
			return unused;
		}
		work();
		UNLOCK;
		usleep(300);
	}
}

static int stub_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct stub_qp *q = (struct stub_qp *)qp;
	int left = told("full", 1), err = 0;

	LOCK;
	for (; wr; wr = wr->next) {
		if (left == 0 || q->tail - q->head >= q->attr.cap.max_send_wr || qp->state < IBV_QPS_RTS || wr->num_sge != 1) {
			*bad = wr;
			err = left == 0 ? ENOMEM : EINVAL;
			break;
		}
		left--;
		q->queue[q->tail % MOST].wr = *wr;
		q->queue[q->tail++ % MOST].sge = *wr->sg_list;
	}
	if (told("hold", 0) != -1) {
		char path[512];

		snprintf(path, sizeof(path), "%s/held", getenv("STUB_VERBS"));
		close(open(path, O_CREAT | O_WRONLY, 0600));
	}
	UNLOCK;
	return err;
}

static int stub_poll_cq(struct ibv_cq *cq, int num, struct ibv_wc *wc)
{
	struct stub_cq *c = (struct stub_cq *)cq;
	int n = 0;

	LOCK;
	for (; n < num && c->head != c->tail; n++)
		wc[n] = c->done[c->head++ % MOST];
	UNLOCK;
	return n;
}

static int stub_arm(struct ibv_cq *cq, int solicited)
{
	LOCK;
	((struct stub_cq *)cq)->armed = 1;
	UNLOCK;
	return 0;
}

struct ibv_device **stub_list(int *n)
{
	struct ibv_device **all = calloc(2, sizeof(*all));

	all[0] = &device;
	*n = told("none", 0) == -1 ? 1 : 0;
	return all;
}
#define EXPORT(function, name) __asm__(".symver " #function ", " name)
EXPORT(stub_list, "ibv_get_device_list@@IBVERBS_1.1");
void stub_free_list(struct ibv_device **all) { free(all); }
EXPORT(stub_free_list, "ibv_free_device_list@@IBVERBS_1.1");
const char *stub_name(struct ibv_device *d) { return "stub0"; }
EXPORT(stub_name, "ibv_get_device_name@@IBVERBS_1.1");

struct ibv_context *stub_open(struct ibv_device *d)
{
	struct ibv_context *c = calloc(1, sizeof(*c));

	c->device = d;
	c->ops.post_send = stub_post_send;
	c->ops.poll_cq = stub_poll_cq;
	c->ops.req_notify_cq = stub_arm;
	c->abi_compat = (void *)(uintptr_t)-1;
	LOCK;
	open_contexts++;
	if (!running++)
		pthread_create(&nic, NULL, run, NULL);
	UNLOCK;
	return c;
}
EXPORT(stub_open, "ibv_open_device@@IBVERBS_1.1");

int stub_close(struct ibv_context *c)
{
	int busy;

	LOCK;
	busy = domains && open_contexts == 1;
	if (!busy)
		open_contexts--;
	UNLOCK;
	if (!busy)
		free(c);
	return busy ? EBUSY : 0;
}
EXPORT(stub_close, "ibv_close_device@@IBVERBS_1.1");

int stub_port(struct ibv_context *c, uint8_t port, struct _compat_ibv_port_attr *old)
{
	struct ibv_port_attr *a = (struct ibv_port_attr *)old;

	if (port != 1)
		return EINVAL;
	a->state = told("down", 0) == -1 ? IBV_PORT_ACTIVE : IBV_PORT_DOWN;
	a->active_mtu = IBV_MTU_1024;
	a->gid_tbl_len = 4;
	a->lid = 7;
	a->link_layer = IBV_LINK_LAYER_ETHERNET;
	return 0;
}
EXPORT(stub_port, "ibv_query_port@@IBVERBS_1.1");

int stub_gid(struct ibv_context *c, uint8_t port, int index, union ibv_gid *gid)
{
	static const uint8_t table[4][16] = {{0}, {0xfe, 0x80, [15] = 1}, {[10] = 0xff, 0xff, 10, 77, 0, 1}, {0}};

	if (index < 0 || index >= 4)
		return -1;
	memcpy(gid, table[index], 16);
	return 0;
}
EXPORT(stub_gid, "ibv_query_gid@@IBVERBS_1.1");

struct ibv_pd *stub_alloc_pd(struct ibv_context *c)
{
	struct stub_pd *pd = calloc(1, sizeof(*pd));

	pd->pd.context = c;
	LOCK;
	domains++;
	UNLOCK;
	return &pd->pd;
}
EXPORT(stub_alloc_pd, "ibv_alloc_pd@@IBVERBS_1.1");

int stub_dealloc_pd(struct ibv_pd *pd)
{
	if (((struct stub_pd *)pd)->users)
		return EBUSY;
	LOCK;
	domains--;
	UNLOCK;
	free(pd);
	return 0;
}
EXPORT(stub_dealloc_pd, "ibv_dealloc_pd@@IBVERBS_1.1");

#undef ibv_reg_mr
struct ibv_mr *stub_reg(struct ibv_pd *pd, void *addr, size_t length, int access)
{
	struct stub_mr *m = calloc(1, sizeof(*m));

	if (told("locked", 0) != -1) {
		free(m);
		errno = ENOMEM;
		return NULL;
	}
	m->mr = (struct ibv_mr){.pd = pd, .addr = addr, .length = length};
	m->access = access;
	LOCK;
	m->mr.lkey = next_key++;
	m->mr.rkey = next_key++;
	m->next = mrs;
	mrs = m;
	((struct stub_pd *)pd)->users++;
	UNLOCK;
	return &m->mr;
}
EXPORT(stub_reg, "ibv_reg_mr@@IBVERBS_1.1");

int stub_dereg(struct ibv_mr *mr)
{
	LOCK;
	for (struct stub_qp *q = qps; q; q = q->next)
		if (q->qp.pd == mr->pd) {
			UNLOCK;
			return EBUSY; // sooner than its queue pairs: not in order
		}
	for (struct stub_mr **m = &mrs; *m; m = &(*m)->next)
		if (&(*m)->mr == mr) {
			*m = (*m)->next;
			break;
		}
	((struct stub_pd *)mr->pd)->users--;
	UNLOCK;
	free(mr);
	return 0;
}
EXPORT(stub_dereg, "ibv_dereg_mr@@IBVERBS_1.1");

struct ibv_comp_channel *stub_channel(struct ibv_context *c)
{
	struct stub_channel *ch = calloc(1, sizeof(*ch));
	int ends[2];

	if (pipe2(ends, O_CLOEXEC) != 0)
		return NULL;
	ch->ch.context = c;
	ch->ch.fd = ends[0];
	ch->in = ends[1];
	return &ch->ch;
}
EXPORT(stub_channel, "ibv_create_comp_channel@@IBVERBS_1.0");

int stub_end_channel(struct ibv_comp_channel *c)
{
	struct stub_channel *ch = (struct stub_channel *)c;

	if (ch->users)
		return EBUSY;
	close(c->fd);
	close(ch->in);
	free(ch);
	return 0;
}
EXPORT(stub_end_channel, "ibv_destroy_comp_channel@@IBVERBS_1.0");

struct ibv_cq *stub_cq(struct ibv_context *c, int depth, void *mine, struct ibv_comp_channel *ch, int vector)
{
	struct stub_cq *cq = calloc(1, sizeof(*cq));

	cq->cq.context = c;
	cq->cq.channel = ch;
	LOCK;
	if (ch)
		((struct stub_channel *)ch)->users++;
	cq->next = cqs;
	cqs = cq;
	UNLOCK;
	return &cq->cq;
}
EXPORT(stub_cq, "ibv_create_cq@@IBVERBS_1.1");

int stub_end_cq(struct ibv_cq *cq)
{
	if (((struct stub_cq *)cq)->users)
		return EBUSY;
	LOCK;
	for (struct stub_cq **c = &cqs; *c; c = &(*c)->next)
		if (&(*c)->cq == cq) {
			*c = (*c)->next;
			break;
		}
	if (cq->channel)
		((struct stub_channel *)cq->channel)->users--;
	UNLOCK;
	free(cq);
	return 0;
}
EXPORT(stub_end_cq, "ibv_destroy_cq@@IBVERBS_1.1");

int stub_event(struct ibv_comp_channel *ch, struct ibv_cq **cq, void **mine)
{
	return read(ch->fd, cq, sizeof(*cq)) == sizeof(*cq) ? 0 : -1;
}
EXPORT(stub_event, "ibv_get_cq_event@@IBVERBS_1.1");
void stub_ack(struct ibv_cq *cq, unsigned n) {}
EXPORT(stub_ack, "ibv_ack_cq_events@@IBVERBS_1.1");

struct ibv_qp *stub_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *a)
{
	struct stub_qp *q = calloc(1, sizeof(*q));

	if (a->qp_type != IBV_QPT_RC || a->cap.max_send_wr > MOST) {
		errno = EINVAL;
		free(q);
		return NULL;
	}
	q->qp.context = pd->context;
	q->qp.pd = pd;
	q->qp.send_cq = a->send_cq;
	q->attr.cap = a->cap;
	LOCK;
	q->qp.qp_num = next_qp++;
	((struct stub_pd *)pd)->users++;
	((struct stub_cq *)a->send_cq)->users++;
	q->next = qps;
	qps = q;
	UNLOCK;
	return &q->qp;
}
EXPORT(stub_qp, "ibv_create_qp@@IBVERBS_1.1");

int stub_end_qp(struct ibv_qp *qp)
{
	LOCK;
	for (struct stub_qp **q = &qps; *q; q = &(*q)->next)
		if (&(*q)->qp == qp) {
			*q = (*q)->next;
			break;
		}
	((struct stub_pd *)qp->pd)->users--;
	((struct stub_cq *)qp->send_cq)->users--;
	UNLOCK;
	free(qp);
	return 0;
}
EXPORT(stub_end_qp, "ibv_destroy_qp@@IBVERBS_1.1");

// What each state needs, as a NIC asks for it.
static const int needs[IBV_QPS_ERR + 1] = {
	[IBV_QPS_INIT] = IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
	[IBV_QPS_RTR] = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
	[IBV_QPS_RTS] = IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC,
};

int stub_modify(struct ibv_qp *qp, struct ibv_qp_attr *a, int mask)
{
	struct stub_qp *q = (struct stub_qp *)qp;
	uint8_t ours[16] = {[10] = 0xff, 0xff, 10, 77, 0, 1};
	int err = 0;

	LOCK;
	if (!(mask & IBV_QP_STATE) || a->qp_state > IBV_QPS_ERR || mask != (needs[a->qp_state] | IBV_QP_STATE) ||
	    (a->qp_state != IBV_QPS_ERR && a->qp_state != qp->state + 1))
		err = EINVAL;
	else if (a->qp_state == IBV_QPS_RTR && (!a->ah_attr.is_global || memcmp(&a->ah_attr.grh.dgid, ours, 16) ||
		 a->ah_attr.grh.sgid_index != 2 || a->ah_attr.port_num != 1 || a->path_mtu != IBV_MTU_1024))
		err = EINVAL;
	if (!err) {
		qp->state = a->qp_state;
		if (mask & IBV_QP_ACCESS_FLAGS)
			q->attr.qp_access_flags = a->qp_access_flags;
		if (mask & IBV_QP_DEST_QPN) {
			q->attr.dest_qp_num = a->dest_qp_num;
			q->attr.rq_psn = a->rq_psn;
		}
		if (mask & IBV_QP_SQ_PSN)
			q->attr.sq_psn = a->sq_psn;
	}
	UNLOCK;
	return err;
}
EXPORT(stub_modify, "ibv_modify_qp@@IBVERBS_1.1");
