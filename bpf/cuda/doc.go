// Package cuda is the probe of the CUDA driver's memory: it sees, at the functions that
// libcuda.so.1 exports, what a process allocates, maps, frees, lends and opens, and how
// it ended. It is off unless asked for.
//
// It imports bpf/load, bpf/uprobe, bpf/target and the reader of its records
// (sidecar/source/cuda). It needs the rights to load and attach (see kvwitness-probe),
// a kernel with BTF from 5.15 on, and x86-64. It promises:
//   - a function that several names lead to is attached to once, and a process that got
//     its address by cuGetProcAddress is seen there as well;
//   - a call is told when it has succeeded, once; where one function calls another, both
//     are told, with their beginnings, so that they can be known as one;
//   - a record for which there is no room is counted, and a call that was not seen to
//     begin is told as one that is not known;
//   - nothing is attached to a driver whose version is denied, nor to what copies memory
//     where copies are not asked for; these take at most half of the ring;
//   - of processes that are not watched only who opens memory of one that is: by a handle
//     of IPC or fabric, which is known by its content, or by a descriptor, which is known
//     by its open file. Another file is not taken for it, whatever address it has.
//
// What it cannot see: memory of arrays and textures, which no transfer touches; who imports
// memory by a descriptor once the process that lent it has ended, or has other
// credentials; what is lent by a descriptor of another function (of a range of
// addresses, as for RDMA); which of more than 16,384 handles or files, the oldest, was
// opened; what a program calls by another way into the driver than its exported functions.
// Functions that bring memory in other ways than are followed are told as that.
package cuda

//go:generate go tool bpf2go -go-package cuda -cc clang-16 -strip llvm-strip-16 -target amd64 -no-global-types -cflags "-O2 -g -mcpu=v3 -Wall -Werror -I../include" probe probe.bpf.c
