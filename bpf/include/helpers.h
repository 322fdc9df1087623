/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * What BPF programs here need of a compiler and of the kernel's helper table.
 * Helper numbers are kernel ABI (include/uapi/linux/bpf.h); every one that is
 * named here is in kernel 5.8, so that nothing needs a fallback on 5.15.
 */
#pragma once

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef signed long long s64;

#define SEC(name) __attribute__((section(name), used))
#define INLINE static inline __attribute__((always_inline))
/* A function that the verifier checks once, alone, whoever calls it. */
#define CHECKED_ALONE __attribute__((noinline))
/* Fields of the kernel's structs are found at load, by its own BTF. */
#define RELOCATED __attribute__((preserve_access_index))

#define UINT(name, value) int(*name)[value]
#define TYPE(name, type) typeof(type) *name

#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

/* BOUND makes the verifier see that a value is below a power of two, which the
 * compiler would otherwise prove and drop. */
#define BOUND(value, power)                        \
	({                                         \
		u64 bounded = (value);             \
		asm volatile("" : "+r"(bounded));  \
		bounded &= (power) - 1;            \
		asm volatile("" : "+r"(bounded));  \
		bounded;                           \
	})

enum map_type {
	MAP_HASH = 1,
	MAP_PERCPU_ARRAY = 6,
	MAP_LRU_HASH = 9,
	MAP_RINGBUF = 27,
};

enum update_flag { ANY = 0, NOEXIST = 1 };
enum ringbuf_flag { NO_WAKEUP = 1 };
enum ringbuf_question { IN_USE = 0, RING_SIZE = 1 };

static void *(*map_lookup)(void *map, const void *key) = (void *)1;
static long (*map_update)(void *map, const void *key, const void *value, u64 flags) = (void *)2;
static long (*map_delete)(void *map, const void *key) = (void *)3;
static u64 (*ktime_ns)(void) = (void *)5;
static u64 (*current_pid_tgid)(void) = (void *)14;
static void *(*current_task)(void) = (void *)35;
static long (*read_user)(void *dst, u32 size, const void *from) = (void *)112;
static long (*read_kernel)(void *dst, u32 size, const void *from) = (void *)113;
static u64 (*ringbuf_query)(void *ring, u64 flags) = (void *)134;
static long (*ringbuf_output)(void *ring, void *data, u64 size, u64 flags) = (void *)130;

/* READ(dst, &p->field) reads a field of a kernel struct; 0 on a fault. */
#define READ(dst, from)                                                   \
	({                                                                \
		if (read_kernel(&(dst), sizeof(dst), (from)))             \
			__builtin_memset(&(dst), 0, sizeof(dst));         \
	})
