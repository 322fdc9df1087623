// One side of a pair over UCX: it owns memory, or puts into the memory of the other
// and gets from there. A thread makes progress, as engines have one. All functions
// return 0, or what went wrong, unless they say otherwise.
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucp/api/ucp.h>
#include <unistd.h>

static ucp_context_h context;
static ucp_worker_h worker;
static pthread_mutex_t using = PTHREAD_MUTEX_INITIALIZER;
static int stopping;
static pthread_t progressing;

static void *progress(void *unused)
{
	(void)unused;
	for (int stop = 0; !stop;) {
		pthread_mutex_lock(&using);
		ucp_worker_progress(worker);
		stop = stopping;
		pthread_mutex_unlock(&using);
		usleep(200);
	}
	return NULL;
}

int peer_open(void)
{
	ucp_params_t params = { .field_mask = UCP_PARAM_FIELD_FEATURES, .features = UCP_FEATURE_RMA | UCP_FEATURE_AMO64 };
	ucp_worker_params_t how = { .field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE, .thread_mode = UCS_THREAD_MODE_SERIALIZED };
	ucs_status_t s = ucp_init(&params, NULL, &context);

	if (s == UCS_OK)
		s = ucp_worker_create(context, &how, &worker);
	if (s != UCS_OK)
		return s;
	return pthread_create(&progressing, NULL, progress, NULL);
}

// peer_address fills in the worker's address and returns its length; 0: an error.
size_t peer_address(int by_query, void *to, size_t room)
{
	ucp_address_t *address = NULL;
	size_t length = 0;
	ucs_status_t s;

	pthread_mutex_lock(&using);
	if (by_query) {
		ucp_worker_attr_t attr = { .field_mask = UCP_WORKER_ATTR_FIELD_ADDRESS };

		s = ucp_worker_query(worker, &attr);
		address = attr.address;
		length = attr.address_length;
	} else {
		s = ucp_worker_get_address(worker, &address, &length);
	}
	if (s == UCS_OK && length <= room)
		memcpy(to, address, length);
	if (s == UCS_OK)
		ucp_worker_release_address(worker, address);
	pthread_mutex_unlock(&using);
	return s == UCS_OK && length <= room ? length : 0;
}

// peer_map gets memory and registers it; NULL: an error. The key for it is filled in
// with its length, which is room before.
void *peer_map(size_t bytes, ucp_mem_h *handle, void *key, size_t *room)
{
	void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ucp_mem_map_params_t params = { .field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH, .address = at, .length = bytes };
	void *packed;
	size_t length;

	if (at == MAP_FAILED || ucp_mem_map(context, &params, handle) != UCS_OK)
		return NULL;
	if (ucp_rkey_pack(context, *handle, &packed, &length) != UCS_OK || length > *room)
		return NULL;
	memcpy(key, packed, length);
	*room = length;
	ucp_rkey_buffer_release(packed);
	return at;
}

int peer_unmap(ucp_mem_h handle) { return ucp_mem_unmap(context, handle); }

int peer_connect(const void *address, const void *key, ucp_ep_h *ep, ucp_rkey_h *rkey)
{
	ucp_ep_params_t params = { .field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS, .address = address };

	pthread_mutex_lock(&using);
	ucs_status_t s = ucp_ep_create(worker, &params, ep);
	if (s == UCS_OK)
		s = ucp_ep_rkey_unpack(*ep, key, rkey);
	pthread_mutex_unlock(&using);
	return s;
}

static int await(void *request)
{
	ucs_status_t s;

	if (!UCS_PTR_IS_PTR(request))
		return UCS_PTR_STATUS(request);
	while ((s = ucp_request_check_status(request)) == UCS_INPROGRESS)
		if (!ucp_worker_progress(worker))
			usleep(50);
	ucp_request_free(request);
	return s;
}

static void called(void *request, ucs_status_t status)
{
	(void)request;
	(void)status;
}

#include <ucp/api/ucp_compat.h>

// The ways to move bytes, by number. Those that do not wait by themselves are waited
// for, but for the two that have no request (nbi).
enum { PUT_NBX, PUT_NB, PUT_NBI, PUT, GET_NBX, GET_NB, GET_NBI, GET, PUT_WORDS, PUT_LIST };

static int move(int how, ucp_ep_h ep, ucp_rkey_h key, void *local, uint64_t remote, size_t bytes)
{
	ucp_request_param_t param = { 0 };
	ucs_status_t s;

	switch (how) {
	case PUT_NBX:
		return await(ucp_put_nbx(ep, local, bytes, remote, key, &param));
	case PUT_NB:
		return await(ucp_put_nb(ep, local, bytes, remote, key, called));
	case PUT_NBI:
		s = ucp_put_nbi(ep, local, bytes, remote, key);
		return s == UCS_INPROGRESS ? UCS_OK : s;
	case PUT:
		return ucp_put(ep, local, bytes, remote, key);
	case GET_NBX:
		return await(ucp_get_nbx(ep, local, bytes, remote, key, &param));
	case GET_NB:
		return await(ucp_get_nb(ep, local, bytes, remote, key, called));
	case GET_NBI:
		s = ucp_get_nbi(ep, local, bytes, remote, key);
		return s == UCS_INPROGRESS ? UCS_OK : s;
	case GET:
		return ucp_get(ep, local, bytes, remote, key);
	case PUT_WORDS: // of which UCX 1.13 takes an eighth
		param.op_attr_mask = UCP_OP_ATTR_FIELD_DATATYPE;
		param.datatype = ucp_dt_make_contig(8);
		return await(ucp_put_nbx(ep, local, bytes / 8, remote, key, &param));
	case PUT_LIST: // which UCX 1.13 takes for what it lists
		param.op_attr_mask = UCP_OP_ATTR_FIELD_DATATYPE;
		param.datatype = ucp_dt_make_iov();
		return await(ucp_put_nbx(ep, &(ucp_dt_iov_t){ local, bytes }, 1, remote, key, &param));
	}
	return -1;
}

int peer_move(int how, ucp_ep_h ep, ucp_rkey_h key, void *local, uint64_t remote, size_t bytes)
{
	pthread_mutex_lock(&using);
	int s = move(how, ep, key, local, remote, bytes);
	pthread_mutex_unlock(&using);
	return s;
}

// peer_flood puts the same bytes many times.
int peer_flood(ucp_ep_h ep, ucp_rkey_h key, void *local, uint64_t remote, size_t bytes, int times)
{
	int s = 0;

	pthread_mutex_lock(&using);
	while (times-- && !s)
		s = move(PUT_NBX, ep, key, local, remote, bytes);
	pthread_mutex_unlock(&using);
	return s;
}

// The ways to flush.
enum { EP_NBX, EP_NB, EP, WORKER_NBX, WORKER_NB, WORKER };

int peer_flush(int how, ucp_ep_h ep)
{
	ucp_request_param_t param = { 0 };
	int s = -1;

	pthread_mutex_lock(&using);
	switch (how) {
	case EP_NBX:
		s = await(ucp_ep_flush_nbx(ep, &param));
		break;
	case EP_NB:
		s = await(ucp_ep_flush_nb(ep, 0, called));
		break;
	case EP:
		s = ucp_ep_flush(ep);
		break;
	case WORKER_NBX:
		s = await(ucp_worker_flush_nbx(worker, &param));
		break;
	case WORKER_NB:
		s = await(ucp_worker_flush_nb(worker, 0, called));
		break;
	case WORKER:
		s = ucp_worker_flush(worker);
		break;
	}
	pthread_mutex_unlock(&using);
	return s;
}

// peer_around asks for an address at which the other's memory lies; there is one
// only where both share it.
int peer_around(ucp_rkey_h key, uint64_t remote)
{
	void *at;

	return ucp_rkey_ptr(key, remote, &at);
}

int peer_close_endpoint(ucp_ep_h ep, ucp_rkey_h key)
{
	pthread_mutex_lock(&using);
	ucp_rkey_destroy(key);
	int s = await(ucp_ep_close_nb(ep, UCP_EP_CLOSE_MODE_FLUSH));
	pthread_mutex_unlock(&using);
	return s;
}

void peer_close(void)
{
	pthread_mutex_lock(&using);
	stopping = 1;
	pthread_mutex_unlock(&using);
	pthread_join(progressing, NULL);
	ucp_worker_destroy(worker);
	ucp_cleanup(context);
	stopping = 0;
}
