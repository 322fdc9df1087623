/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * The part of the kernel's types that the probes look at: names and types of
 * fields only. Their offsets are relocated at load (CO-RE), so that one object
 * fits every kernel that has these names; they have not changed from 5.8 to
 * 6.18. pt_regs and the structs of system calls are ABI and are laid out here.
 */
#pragma once
#include "helpers.h"

struct file;

struct fdtable {
	unsigned int max_fds;
	struct file **fd;
} RELOCATED;

struct files_struct {
	struct fdtable *fdt;
} RELOCATED;

struct cred;

struct task_struct {
	struct files_struct *files;
	struct task_struct *group_leader;
	const struct cred *cred;
	int exit_state; /* 0: it has not ended */
	int tgid;
} RELOCATED;

struct inode {
	u16 i_mode;
	unsigned long i_ino;
} RELOCATED;

struct file {
	struct inode *f_inode;
	const struct cred *f_cred; /* of who opened it */
	void *private_data;
} RELOCATED;

struct ns_common {
	u32 inum;
} RELOCATED;

struct net {
	struct ns_common ns;
} RELOCATED;

typedef struct {
	struct net *net;
} possible_net_t;

struct in6_addr {
	u8 bytes[16];
};

struct sock_common {
	u32 skc_daddr;
	u32 skc_rcv_saddr;
	u16 skc_dport; /* network order */
	u16 skc_num;   /* host order */
	u16 skc_family;
	possible_net_t skc_net;
	struct in6_addr skc_v6_daddr;
	struct in6_addr skc_v6_rcv_saddr;
} RELOCATED;

struct sock {
	struct sock_common __sk_common;
	u16 sk_type;
	u16 sk_protocol;
} RELOCATED;

struct socket {
	struct sock *sk;
} RELOCATED;

/* Sequence numbers of a connection: enough to say at which byte of each
 * direction the process stands, whoever moved the bytes. */
struct tcp_sock {
	u32 rcv_nxt;
	u32 copied_seq;
	u32 write_seq;
	u32 snd_una;
	u64 bytes_received;
	u64 bytes_acked;
} RELOCATED;

struct iovec {
	void *base;
	u64 length;
};

struct user_msghdr {
	void *name;
	int name_length;
	struct iovec *iov;
	u64 iov_length;
};

struct raw_tracepoint_args {
	u64 args[2];
};

#if defined(__TARGET_ARCH_x86)
struct pt_regs {
	u64 r15, r14, r13, r12, bp, bx, r11, r10, r9, r8, ax, cx, dx, si, di, orig_ax, ip, cs, flags, sp, ss;
};

/* request is what a system call was asked: the registers from r10 on, in one
 * piece. */
struct request {
	u64 fourth, r9, r8, returned, cx, third, second, first, number;
};

enum syscall_number {
	SYS_READ = 0,
	SYS_WRITE = 1,
	SYS_READV = 19,
	SYS_WRITEV = 20,
	SYS_SENDTO = 44,
	SYS_RECVFROM = 45,
	SYS_SENDMSG = 46,
	SYS_RECVMSG = 47,
};
#else
#error "system calls are known for x86-64 only"
#endif

enum {
	AF_INET = 2,
	AF_INET6 = 10,
	SOCK_STREAM = 1,
	IPPROTO_TCP = 6,
	S_IFMT = 0170000,
	S_IFSOCK = 0140000,
	MSG_PEEK = 2,
};
