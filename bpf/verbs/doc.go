// Package verbs sees what an unmodified process posts to its RDMA NICs through
// libibverbs, whatever the provider: which bytes of whose memory were written
// or read, by which queue pair, and with Options.Completions how it ended.
//
// ibv_post_send is inline and calls a pointer into the provider's library. So
// Watch attaches to what libibverbs exports; a record of a context or of a
// connected queue pair brings the pointer, and AttachContext attaches there, if
// a function of a verbs provider starts at that address. One attachment serves
// every process that has the file mapped; calls of processes that are not
// watched return after one look.
//
// It imports bpf/load, bpf/target, bpf/uprobe and the reader of its records
// (sidecar/source/verbs), and knows nothing of pools or findings. It promises
// that every record, as far as the process's memory could be read, says what
// was posted, and where it was cut (Flags); that a loss is counted; that it
// writes nothing into the process.
//
// It does not see: writes that a library hands to the NIC itself (a record says
// where mlx5 or mlx4 is asked for the way, and by whom: for UCX on mlx5 there is
// bpf/ucp; GPU-initiated transfers), memory windows and DEVX keys,
// libraries that link a verbs provider statically, and the target side of a
// one-sided operation, which has no event on its CPU.
//
// Layouts are those of rdma-core v44 to v65 on x86-64.
package verbs

//go:generate go tool bpf2go -go-package verbs -cc clang-16 -strip llvm-strip-16 -target amd64 -no-global-types -cflags "-O2 -g -mcpu=v3 -Wall -Werror -I../include" probe probe.bpf.c
