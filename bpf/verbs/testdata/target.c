// A process to be watched: it does what it is told on standard input, a command
// a line, and answers each with a line.
#include <infiniband/verbs.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct ibv_context *verbs_open_device(void *, void *);
struct ibv_qp *stub_new_qp(struct ibv_context *, uint32_t);
void stub_fail(int);

static struct ibv_context *context;
static struct ibv_qp *qp;
static struct ibv_cq cq;

#define MOST 1100

// apart N: so many unused entries lie behind those of each request from now on. With
// none, as at first, all lie in one array, as Mooncake and perftest have them.
static int apart;

// post N SGES BYTES GAP OP LAST: a chain of N requests of SGES entries of BYTES
// each; GAP bytes between requests on the remote side; LAST: only the last is
// signalled.
static void post(int n, int sges, unsigned bytes, unsigned gap, int op, int last)
{
	static struct ibv_send_wr wr[MOST];
	static struct ibv_sge list[MOST * 48];
	struct ibv_sge *at = list;
	struct ibv_send_wr *bad;
	uint64_t remote = 0x100000000, local = 0x200000000;

	memset(wr, 0, sizeof(wr));
	for (int i = 0; i < n; i++) {
		for (int s = 0; s < sges; s++) {
			at[s] = (struct ibv_sge){ local, bytes, 7 };
			local += bytes;
		}
		wr[i].wr_id = i + 1;
		wr[i].next = i + 1 < n ? &wr[i + 1] : NULL;
		wr[i].sg_list = at;
		at += sges + apart;
		wr[i].num_sge = sges;
		wr[i].opcode = op;
		wr[i].send_flags = !last || i + 1 == n ? IBV_SEND_SIGNALED : 0;
		wr[i].wr.rdma.remote_addr = remote;
		wr[i].wr.rdma.rkey = 42;
		remote += (uint64_t)sges * bytes + gap;
	}
	ibv_post_send(qp, wr, &bad);
}

// ext N: a request of N scatter entries by the extended API, then one of one
// entry that follows it, then one inline.
static void ext(int n)
{
	struct ibv_qp_ex *x = ibv_qp_to_qp_ex(qp);
	struct ibv_sge list[40];

	usleep(300000); // the functions are attached to once they are known
	for (int i = 0; i < n; i++)
		list[i] = (struct ibv_sge){ 0x200000000 + i * 4096, 4096, 7 };
	ibv_wr_start(x);
	x->wr_id = 1;
	x->wr_flags = 0;
	ibv_wr_rdma_write(x, 42, 0x100000000);
	ibv_wr_set_sge_list(x, n, list);
	x->wr_id = 2;
	ibv_wr_rdma_write(x, 42, 0x100000000 + n * 4096);
	ibv_wr_set_sge(x, 7, 0x200000000 + n * 4096, 4096);
	x->wr_id = 3;
	x->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_rdma_read(x, 42, 0x300000000);
	ibv_wr_set_sge(x, 7, 0x400000000, 512);
	x->wr_id = 4;
	ibv_wr_rdma_write(x, 42, 0x500000000);
	ibv_wr_set_inline_data(x, list, 16);
	ibv_wr_complete(x);
}

static void hostile(const char *how)
{
	static struct ibv_send_wr wr;
	static struct ibv_sge sge;
	struct ibv_send_wr *bad;

	memset(&wr, 0, sizeof(wr));
	sge = (struct ibv_sge){ 0x200000000, 4096, 7 };
	wr.sg_list = &sge;
	wr.num_sge = 1;
	wr.opcode = IBV_WR_RDMA_WRITE;
	wr.wr.rdma.remote_addr = 0x100000000;
	if (!strcmp(how, "loop"))
		wr.next = &wr;
	else if (!strcmp(how, "huge"))
		sge.length = 0xffffffff, wr.wr.rdma.remote_addr = (uint64_t)-4096;
	else if (!strcmp(how, "entries"))
		wr.num_sge = 0x7fffffff;
	else if (!strcmp(how, "negative"))
		wr.num_sge = -1;
	else if (!strcmp(how, "wild"))
		wr.sg_list = (void *)0x10;
	ibv_post_send(qp, &wr, &bad);
}

int main(void)
{
	char line[256], word[64];
	int a[6];

	setvbuf(stdout, NULL, _IOLBF, 0);
	printf("ready %p\n", (void *)&stub_fail);
	while (fgets(line, sizeof(line), stdin)) {
		memset(a, 0, sizeof(a));
		*word = 0;
		if (!strncmp(line, "open", 4)) {
			context = verbs_open_device(NULL, NULL);
			cq.context = context;
		} else if (sscanf(line, "qp %d %d", &a[0], &a[1]) == 2) {
			struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTR, .dest_qp_num = a[1] };

			qp = stub_new_qp(context, a[0]);
			attr.ah_attr.is_global = 1;
			memset(attr.ah_attr.grh.dgid.raw, 0xab, 16);
			ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_DEST_QPN | IBV_QP_AV);
		} else if (sscanf(line, "post %d %d %d %d %d %d", &a[0], &a[1], &a[2], &a[3], &a[4], &a[5]) == 6) {
			post(a[0], a[1], a[2], a[3], a[4], a[5]);
		} else if (sscanf(line, "flood %d %d %d", &a[0], &a[1], &a[2]) == 3) {
			for (int i = 0; i < a[0]; i++)
				post(a[1], 1, 65536, a[2], IBV_WR_RDMA_WRITE, 0);
		} else if (sscanf(line, "apart %d", &a[0]) == 1) {
			apart = a[0];
		} else if (sscanf(line, "poll %d", &a[0]) == 1) {
			struct ibv_wc wc[128];

			printf("%d ", ibv_poll_cq(&cq, a[0] < 128 ? a[0] : 128, wc));
		} else if (sscanf(line, "fail %d", &a[0]) == 1) {
			stub_fail(a[0]);
		} else if (sscanf(line, "ext %d", &a[0]) == 1) {
			ext(a[0]);
		} else if (sscanf(line, "reg %d", &a[0]) == 1) {
			struct ibv_mr *mr = ibv_reg_mr_iova2(NULL, (void *)0x7000000000, a[0], 0x8000000000, 0);

			printf("%u ", mr->rkey);
			ibv_dereg_mr(mr);
		} else if (sscanf(line, "dmabuf %d", &a[0]) == 1) {
			printf("%u ", ibv_reg_dmabuf_mr(NULL, 0x1000, a[0], 0x9000000000, 3, 0)->rkey);
		} else if (sscanf(line, "hostile %60s", word) == 1) {
			hostile(word);
		} else if (sscanf(line, "forge %60s", word) == 1) {
			// A table of operations that points where nobody may attach.
			char *at = (char *)context->ops.post_send;

			context->ops.post_send = !strcmp(word, "poll") ? (void *)context->ops.poll_cq :
						 !strcmp(word, "libc") ? (void *)dlsym(RTLD_DEFAULT, "malloc") :
						 !strcmp(word, "middle") ? (void *)(at + 1) : (void *)0x42;
			struct ibv_qp_attr attr = { 0 };
			ibv_modify_qp(qp, &attr, 0);
			context->ops.post_send = (void *)at;
		} else if (sscanf(line, "polls %d", &a[0]) == 1) {
			struct ibv_wc wc;

			while (a[0]--)
				ibv_poll_cq(&cq, 1, &wc);
		} else if (!strncmp(line, "end", 3)) {
			ibv_destroy_qp(qp);
			ibv_close_device(context);
		} else {
			printf("what? ");
		}
		printf("done\n");
	}
	return 0;
}
