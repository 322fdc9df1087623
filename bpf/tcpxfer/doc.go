// Package tcpxfer is the probe of Mooncake's TCP transport: it sees, in the
// process that receives, the header of every transfer and the moment at which
// its payload has wholly been taken from the socket.
//
// It imports the loader of BPF programs and nothing of this project. It needs
// the rights to load and attach (see kvwitness-probe), a kernel with BTF from
// 5.15 on, and x86-64. It promises:
//   - payload is counted, never copied: of a process's memory the 24 bytes of
//     each header are read, and the first 24 bytes that it sends on a socket;
//   - bytes that it did not see, whoever moved them, end what it knows of the
//     connection, and are told; see Blind in sidecar/source/tcpxfer;
//   - a record for which the ring has no room is counted in [Counters].
//
// What it cannot see: a transfer whose header went by io_uring, splice,
// recvmmsg, a 32-bit system call or a process that is no target (a forked
// child) shows as a hole and makes its connection blind; a connection on which
// all of it goes that way is not seen at all. So is one within the process's
// own memory, and RDMA.
package tcpxfer

//go:generate go tool bpf2go -go-package tcpxfer -cc clang-16 -strip llvm-strip-16 -target amd64 -no-global-types -cflags "-O2 -mcpu=v3 -Wall -Werror -I../include" probe probe.bpf.c
