// A program that does with UCX what it is told, a line at a time, and says "done"
// with what came of it (see peer.c for the numbers).
#include "peer.c"
#include <stdio.h>

static unsigned char address[8192], key[8192];
static ucp_mem_h handle;
static ucp_ep_h ep;
static ucp_rkey_h rkey;
static char *memory, *own;

static void print_hex(const unsigned char *p, size_t n)
{
	while (n--)
		printf("%02x", *p++);
	printf(" ");
}

static void read_hex(const char *from, unsigned char *to)
{
	unsigned byte;

	for (; sscanf(from, "%2x", &byte) == 1; from += 2)
		*to++ = byte;
}

static int count(const char *at, size_t bytes, int value)
{
	int n = 0;

	while (bytes--)
		n += *at++ == value;
	return n;
}

int main(void)
{
	static char line[1 << 16], a[1 << 15], b[1 << 15];
	size_t n, at, bytes;
	int how, s;

	printf("ready\n");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		s = -1;
		if (!strncmp(line, "open", 4)) {
			s = peer_open();
			own = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
			printf("%llu ", (unsigned long long)own);
		} else if (sscanf(line, "address %d", &how) == 1) {
			n = peer_address(how, address, sizeof(address));
			print_hex(address, n);
			s = n ? 0 : -1;
		} else if (sscanf(line, "map %zu", &bytes) == 1) {
			n = sizeof(key);
			memory = peer_map(bytes, &handle, key, &n);
			printf("%llu ", (unsigned long long)memory);
			print_hex(key, n);
			s = memory ? 0 : -1;
		} else if (sscanf(line, "connect %32767s %32767s", a, b) == 2) {
			read_hex(a, address);
			read_hex(b, key);
			s = peer_connect(address, key, &ep, &rkey);
		} else if (sscanf(line, "move %d %zu %zu %zu", &how, &n, &at, &bytes) == 4) {
			s = peer_move(how, ep, rkey, own + n, at, bytes);
		} else if (sscanf(line, "flood %zu %zu %d", &n, &bytes, &how) == 3) {
			s = peer_flood(ep, rkey, own, n, bytes, how);
		} else if (sscanf(line, "flush %d", &how) == 1) {
			s = peer_flush(how, ep);
		} else if (sscanf(line, "fill %d", &how) == 1) {
			memset(own, how, 1 << 20);
			s = 0;
		} else if (sscanf(line, "count %d", &how) == 1) {
			printf("%d ", count(memory, 1 << 20, how));
			s = 0;
		} else if (sscanf(line, "own %d", &how) == 1) {
			printf("%d ", count(own, 1 << 20, how));
			s = 0;
		} else if (sscanf(line, "around %zu", &n) == 1) {
			s = peer_around(rkey, n);
		} else if (!strncmp(line, "unmap", 5)) {
			s = peer_unmap(handle);
		} else if (!strncmp(line, "disconnect", 10)) {
			s = peer_close_endpoint(ep, rkey);
		} else if (!strncmp(line, "close", 5)) {
			peer_close();
			s = 0;
		}
		printf("%d done\n", s);
		fflush(stdout);
	}
	return 0;
}
