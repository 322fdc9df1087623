// The page digest; kernels/reference/digest.go defines it.
#include "page.h"

#define DIGEST_THREADS 128

struct DigestPage {
	u64 page, position, tokens, generation;
};

struct DigestArgs {
	Shape shape;
	const Layer *layers;
	const DigestPage *pages;
	u64 key[2];
	u64 *sums; // one a block of threads; their sum is the digest
	u64 first; // layer
};

DEVICE u64 mix(u64 x) {
	const u64 multiplier = 0xd6e8feb86659fd93;
	x ^= x >> 32;
	x *= multiplier;
	x ^= x >> 32;
	x *= multiplier;
	return x ^ x >> 32;
}

DEVICE u64 seed_of(const DigestArgs &a, const DigestPage &p, u64 layer, u64 part) {
	u64 s = mix(a.key[0]) + a.key[1];
	s = mix(s ^ p.position) + a.key[1];
	s = mix(s ^ (layer << 32 | part)) + a.key[1];
	s = mix(s ^ p.generation) + a.key[1];
	return mix(s ^ p.tokens) + a.key[1];
}

// Grid: pages × (layers from the first on × 2), keys (part 1) before values (part 2).
KERNEL kv_digest(const DigestArgs *a) {
	const u64 step = 0x9e3779b97f4a7c15;
	SHARED u64 sums[DIGEST_THREADS];
	const DigestPage &p = a->pages[block_x()];
	u32 layer = (u32)a->first + block_y() / 2, part = block_y() % 2 + 1, lanes_of_page = (u32)(page_bytes(a->shape) / 16);
	const Layer &l = a->layers[layer];
	const u64 *words = (const u64 *)((part == 1 ? l.keys : l.values) + p.page * page_bytes(a->shape));
	u64 seed = seed_of(*a, p, layer, part), sum = 0;
	u32 lanes_of_head = lanes_of_page / a->shape.kv_heads, counted = (u32)p.tokens * row_bytes(a->shape) / 16;
	for (u32 i = thread_id(); i < lanes_of_page; i += DIGEST_THREADS) {
		if (i % lanes_of_head >= counted) continue;
		sum += mix(words[2 * i] ^ (seed + 2ull * i * step)) + mix(words[2 * i + 1] ^ (seed + (2ull * i + 1) * step));
	}
	sums[thread_id()] = sum;
	sync_block();
	if (thread_id() > 0) return;
	sum = mix(seed);
	for (u32 i = 0; i < DIGEST_THREADS; i++) sum += sums[i];
	a->sums[(u64)block_x() * blocks_y() + block_y()] = sum;
}
