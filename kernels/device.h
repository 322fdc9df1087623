// What the kernels need of a device, and no more: places, barriers, reductions of a
// warp, ordered access to tags, conversions. Here for a GPU, as clang compiles CUDA
// without NVIDIA's headers; test/fakecuda has the same names for a CPU.
#pragma once

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef int i32;

#define WARP 32

#ifdef KVW_ON_CPU
#include "device_cpu.h"
#else

#define DEVICE __attribute__((device)) static inline
#define DEVICE_MEMBER __attribute__((device))
#define KERNEL extern "C" __attribute__((global)) void
#define SHARED __attribute__((shared))
#define UNROLL _Pragma("unroll")
// The first n of at most so many, in registers.
#define EACH(i, n, most) UNROLL for (int i = 0; i < (most); i++) if (i < (int)(n))

DEVICE u32 thread_id() { return __nvvm_read_ptx_sreg_tid_x(); }
DEVICE u32 block_threads() { return __nvvm_read_ptx_sreg_ntid_x(); }
DEVICE u32 block_x() { return __nvvm_read_ptx_sreg_ctaid_x(); }
DEVICE u32 block_y() { return __nvvm_read_ptx_sreg_ctaid_y(); }
DEVICE u32 block_z() { return __nvvm_read_ptx_sreg_ctaid_z(); }
DEVICE u32 blocks_y() { return __nvvm_read_ptx_sreg_nctaid_y(); }
DEVICE u32 blocks_z() { return __nvvm_read_ptx_sreg_nctaid_z(); }

// All threads of the block, or of the warp, reach it; what each stored before is
// visible to the others after.
DEVICE void sync_block() { __syncthreads(); }
DEVICE void sync_warp() { __nvvm_bar_warp_sync(~0u); }

// All lanes of the warp give a number and get the result.
DEVICE float warp_max(float x) {
	for (int i = WARP / 2; i > 0; i /= 2) x = __builtin_fmaxf(x, __nvvm_shfl_sync_bfly_f32(~0u, x, i, 31));
	return x;
}
DEVICE float warp_sum(float x) {
	for (int i = WARP / 2; i > 0; i /= 2) x += __nvvm_shfl_sync_bfly_f32(~0u, x, i, 31);
	return x;
}
DEVICE u64 first_lane(u64 x) {
	u32 low = __nvvm_shfl_sync_idx_i32(~0u, (u32)x, 0, 31), high = __nvvm_shfl_sync_idx_i32(~0u, (u32)(x >> 32), 0, 31);
	return (u64)high << 32 | low;
}

// Scope is the system, not the GPU: the other side may be a network card or the CPU.
DEVICE u64 load_acquire(const u64 *p) {
	u64 x;
	asm volatile("ld.acquire.sys.u64 %0, [%1];" : "=l"(x) : "l"(p) : "memory");
	return x;
}
DEVICE u64 load_relaxed(const u64 *p) {
	u64 x;
	asm volatile("ld.relaxed.sys.u64 %0, [%1];" : "=l"(x) : "l"(p) : "memory");
	return x;
}
DEVICE void store_relaxed(u64 *p, u64 x) { asm volatile("st.relaxed.sys.u64 [%0], %1;" : : "l"(p), "l"(x) : "memory"); }
DEVICE void fence_system() { asm volatile("fence.acq_rel.sys;" : : : "memory"); }

// claim turns 0 into 1 and says whether it was this thread that did. Among threads
// of the GPU: the CPU looks only after the kernel's end.
DEVICE bool claim(u32 *p) {
	u32 before;
	asm volatile("atom.relaxed.gpu.cas.b32 %0, [%1], 0, 1;" : "=r"(before) : "l"(p) : "memory");
	return before == 0;
}
DEVICE void set_bits(u32 *p, u32 bits) { asm volatile("red.relaxed.gpu.or.b32 [%0], %1;" : : "l"(p), "r"(bits) : "memory"); }

// exp of a number of at most 0; -Inf gives 0.
DEVICE float exp_of(float x) {
	float y;
	asm("ex2.approx.f32 %0, %1;" : "=f"(y) : "f"(x * 1.4426950408889634f));
	return y;
}
DEVICE float from_float16(u16 h) {
	float f;
	asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(h));
	return f;
}
DEVICE u16 to_float16(float f) {
	u16 h;
	asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(f));
	return h;
}
#endif

#define MINUS_INFINITY (-__builtin_inff())

DEVICE u32 bits_of(float f) {
	u32 u;
	__builtin_memcpy(&u, &f, sizeof u);
	return u;
}
DEVICE float float_of(u32 u) {
	float f;
	__builtin_memcpy(&f, &u, sizeof f);
	return f;
}
DEVICE float from_bfloat16(u16 h) { return float_of((u32)h << 16); }
DEVICE u16 to_bfloat16(float f) {
	u32 u = bits_of(f);
	if (f != f) return (u16)(u >> 16) | 0x40;
	return (u16)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}
