// The names of kernels/device.h on a CPU: threads are fibres (fibres.cpp), of which
// one runs at a time, until the next barrier. It says nothing of the order in which
// a GPU's memory would become visible.
#pragma once

#define DEVICE static inline
#define DEVICE_MEMBER
#define KERNEL extern "C" void
#define SHARED static
#define UNROLL
#define EACH(i, n, most) for (int i = 0; i < (int)(n); i++)

struct Running {
	u32 thread, block_threads, x, y, z, y_blocks, z_blocks;
};
extern Running running;

DEVICE u32 thread_id() { return running.thread; }
DEVICE u32 block_threads() { return running.block_threads; }
DEVICE u32 block_x() { return running.x; }
DEVICE u32 block_y() { return running.y; }
DEVICE u32 block_z() { return running.z; }
DEVICE u32 blocks_y() { return running.y_blocks; }
DEVICE u32 blocks_z() { return running.z_blocks; }

void sync_block();
void sync_warp();
float warp_max(float x);
float warp_sum(float x);
u64 first_lane(u64 x);

// loads counts down to the moment at which a test changes a word; see inject.cpp.
void before_load(const u64 *p);

DEVICE u64 load_acquire(const u64 *p) {
	before_load(p);
	return __atomic_load_n(p, __ATOMIC_ACQUIRE);
}
DEVICE u64 load_relaxed(const u64 *p) {
	before_load(p);
	return __atomic_load_n(p, __ATOMIC_RELAXED);
}
DEVICE void store_relaxed(u64 *p, u64 x) { __atomic_store_n(p, x, __ATOMIC_RELAXED); }
DEVICE void fence_system() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
DEVICE bool claim(u32 *p) {
	u32 none = 0;
	return __atomic_compare_exchange_n(p, &none, 1, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}
DEVICE void set_bits(u32 *p, u32 bits) { __atomic_fetch_or(p, bits, __ATOMIC_RELAXED); }
DEVICE float exp_of(float x) { return __builtin_expf(x); }

// Exact: a float16 has fewer bits; the product brings the exponent to its place.
DEVICE float from_float16(u16 h) {
	u32 u = (u32)(h & 0x7fff) << 13, sign = (u32)(h & 0x8000) << 16;
	float f;
	if (u >= 0x7c00u << 13) u |= 0x7f800000; // infinity and NaN
	__builtin_memcpy(&f, &u, sizeof f);
	if (u < 0x7f800000) f *= 0x1p112f;
	__builtin_memcpy(&u, &f, sizeof u);
	u |= sign;
	__builtin_memcpy(&f, &u, sizeof f);
	return f;
}

// To the nearest, ties to even.
DEVICE u16 to_float16(float f) {
	u32 u;
	__builtin_memcpy(&u, &f, sizeof u);
	u16 sign = u >> 16 & 0x8000;
	u &= 0x7fffffff;
	if (u > 0x7f800000) return 0x7fff;                      // NaN, as the GPU gives it
	if (u >= 0x477ff000) return sign | 0x7c00;              // rounds to infinity
	if (u < 0x38800000) {                                   // subnormal: the sum rounds
		float g;
		__builtin_memcpy(&g, &u, sizeof g);
		g += 0.5f;
		__builtin_memcpy(&u, &g, sizeof u);
		return sign | (u16)(u - 0x3f000000);
	}
	return sign | (u16)((u + 0xfff + (u >> 13 & 1) - 0x38000000) >> 13);
}
