/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * From the end of a system call to the connection and the byte where it stands.
 *
 * Everything is read at sys_exit, where the registers still hold descriptor,
 * buffer and requested length, and the byte count is known. A connection is its
 * socket's inode, never its descriptor, which is reused. Where in the stream a
 * call stood is not counted here but asked of TCP itself: bytes that went by
 * unseen (io_uring, splice, another process with the same socket, a program
 * that was not attached yet) show as a hole of known length.
 */
#pragma once
#include "descriptor.h"
#include "targets.h"

enum direction { RECEIVED = 0, SENT = 1 };

/* Segments of one call's iovec that are looked at. What lies beyond is counted
 * as a hole. */
#define MAX_SEGMENTS 64

struct ends {
	u32 netns;
	u16 family;
	u16 local_port;
	u16 remote_port;
	u16 unused[3];
	u8 local[16]; /* IPv4: the first four bytes */
	u8 remote[16];
};

/* call is one system call that moved bytes of a socket. */
struct call {
	struct file *file;
	struct sock *sk;
	u64 inode;
	u64 buffer;   /* user address: of the bytes, or of an iovec */
	u64 segments; /* of the iovec; 0: buffer holds the bytes */
	u64 asked;    /* bytes requested, 0 for an iovec */
	u64 moved;    /* bytes returned */
	u32 tgid;
	u32 direction;
};

/* take_message fills in a call whose buffer is a struct msghdr. */
INLINE int take_message(struct call *c, u64 header)
{
	struct user_msghdr m = {};

	if (read_user(&m, sizeof(m), (void *)header))
		return 0;
	c->buffer = (u64)m.iov;
	c->segments = m.iov_length;
	return 1;
}

/* take_arguments says whether the call is of a kind that is looked at. */
INLINE int take_arguments(struct call *c, const struct request *q)
{
	c->buffer = q->second;
	c->segments = 0;
	c->asked = q->third;
	switch (q->number) {
	case SYS_RECVFROM:
		if (q->fourth & MSG_PEEK)
			return 0;
		/* fall through */
	case SYS_READ:
		c->direction = RECEIVED;
		return 1;
	case SYS_WRITE:
	case SYS_SENDTO:
		c->direction = SENT;
		return 1;
	case SYS_READV:
	case SYS_WRITEV:
		c->direction = q->number == SYS_WRITEV ? SENT : RECEIVED;
		c->segments = q->third;
		c->asked = 0;
		return 1;
	case SYS_RECVMSG:
	case SYS_SENDMSG:
		c->direction = q->number == SYS_SENDMSG ? SENT : RECEIVED;
		c->asked = 0;
		if (q->third & MSG_PEEK && c->direction == RECEIVED)
			return 0;
		return take_message(c, q->second);
	}
	return 0;
}

/* take_inode finds the inode of a descriptor's socket; 0: it is none. */
INLINE int take_inode(struct call *c, u64 descriptor)
{
	struct inode *inode;
	u16 mode;

	/* The call had success with it. */
	c->file = file_at(descriptors(), descriptor);
	READ(inode, &c->file->f_inode);
	READ(mode, &inode->i_mode);
	if ((mode & S_IFMT) != S_IFSOCK)
		return 0;
	READ(c->inode, &inode->i_ino);
	return 1;
}

/* take_call fills in a call of a target's at the end of a system call, all but
 * the socket itself; 0: it is of no interest. */
INLINE int take_call(struct call *c, struct raw_tracepoint_args *ctx)
{
	struct pt_regs *regs = (void *)ctx->args[0];
	s64 returned = ctx->args[1];
	struct request q;

	if (returned < 0)
		return 0;
	c->tgid = current_pid_tgid() >> 32;
	if (likely(!map_lookup(&targets, &c->tgid)))
		return 0;
	READ(q, &regs->r10);
	if (!take_arguments(c, &q))
		return 0;
	c->moved = returned;
	return take_inode(c, q.first);
}

/* take_socket finds the socket of a call; 0: it is gone. */
INLINE int take_socket(struct call *c)
{
	struct socket *socket;

	READ(socket, &c->file->private_data);
	READ(c->sk, &socket->sk);
	return c->sk != 0;
}

INLINE int is_tcp(struct sock *sk)
{
	u16 family, type, protocol;

	READ(family, &sk->__sk_common.skc_family);
	READ(type, &sk->sk_type);
	READ(protocol, &sk->sk_protocol);
	return (family == AF_INET || family == AF_INET6) && type == SOCK_STREAM && protocol == IPPROTO_TCP;
}

INLINE void take_ends(struct ends *e, struct sock *sk)
{
	struct net *net;
	u16 remote;

	READ(e->family, &sk->__sk_common.skc_family);
	READ(e->local_port, &sk->__sk_common.skc_num);
	READ(remote, &sk->__sk_common.skc_dport);
	e->remote_port = __builtin_bswap16(remote);
	READ(net, &sk->__sk_common.skc_net.net);
	READ(e->netns, &net->ns.inum);
	if (e->family == AF_INET) {
		read_kernel(e->local, 4, &sk->__sk_common.skc_rcv_saddr);
		read_kernel(e->remote, 4, &sk->__sk_common.skc_daddr);
		return;
	}
	read_kernel(e->local, 16, &sk->__sk_common.skc_v6_rcv_saddr);
	read_kernel(e->remote, 16, &sk->__sk_common.skc_v6_daddr);
}

/* Tries to read counters that another CPU may be changing. */
#define STABLE_TRIES 8
#define UNKNOWN_POSITION (~0ULL)

/* received_bytes is how many bytes of the stream the process has taken. The
 * kernel changes two of the numbers one after the other: where the answer is
 * not what is expected, it is asked for again. */
INLINE u64 received_bytes(struct sock *sk, u64 expected)
{
	struct tcp_sock *tcp = (void *)sk;
	u64 arrived, now = 0, last;
	u32 next, copied;

	for (int i = 0; i < STABLE_TRIES; i++) {
		last = now;
		READ(copied, &tcp->copied_seq);
		READ(next, &tcp->rcv_nxt);
		READ(arrived, &tcp->bytes_received);
		now = arrived - (u32)(next - copied);
		if (now == expected || (expected == UNKNOWN_POSITION && now == last))
			break;
	}
	return now;
}

/* sent_bytes is how many bytes of the stream the process has given; on a
 * connection that this side opened its SYN counts as one more. */
INLINE u64 sent_bytes(struct sock *sk, u64 expected)
{
	struct tcp_sock *tcp = (void *)sk;
	u64 reached, now = 0, last;
	u32 written, acked;

	for (int i = 0; i < STABLE_TRIES; i++) {
		last = now;
		READ(written, &tcp->write_seq);
		READ(acked, &tcp->snd_una);
		READ(reached, &tcp->bytes_acked);
		now = reached + (u32)(written - acked);
		if (now == expected || (expected == UNKNOWN_POSITION && now == last))
			break;
	}
	return now;
}

/* segment reads the k-th piece of a call's buffer. */
INLINE int segment(const struct call *c, u64 k, u64 *at, u64 *length)
{
	struct iovec v = {};

	if (!c->segments) {
		*at = c->buffer;
		*length = c->moved;
		return k == 0;
	}
	if (k >= c->segments || read_user(&v, sizeof(v), (struct iovec *)c->buffer + k))
		return 0;
	*at = (u64)v.base;
	*length = v.length;
	return 1;
}
