// Package pdwire is the probe of the control connections between prefill and
// decode: ZMTP 3 in the clear over TCP, both directions of every connection of
// a watched process.
//
// It imports the loader of BPF programs and nothing of this project. It needs
// the rights to load and attach (see kvwitness-probe), a kernel with BTF from
// 5.15 on, and x86-64. It promises:
//   - the kernel walks the frames and hands on the messages whose first frame
//     has a known shape (shapes.h). The body of AUX_DATA, KV events, and
//     whatever else an engine sends by ZeroMQ never leave it;
//   - every byte has its place: records carry the offset in the stream, and
//     what is not handed on is told with its length, so that a record which the
//     ring lost is a hole of known length;
//   - a direction whose frame boundary is unknown is not handed on; it is joined
//     at a call that holds whole messages of known shapes and nothing else.
//
// What it cannot see: CURVE and PLAIN (told as refused), ZMTP over anything but
// TCP, what goes by io_uring, splice, sendmmsg, recvmmsg or a 32-bit system call
// (a hole, and blind until joined), and processes that are no targets, such as a
// forked child before it is found.
package pdwire

//go:generate go tool bpf2go -go-package pdwire -cc clang-16 -strip llvm-strip-16 -target amd64 -no-global-types -cflags "-O2 -mcpu=v3 -Wall -Werror -I../include" probe probe.bpf.c
