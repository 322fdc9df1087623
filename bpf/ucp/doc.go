// Package ucp sees what an unmodified process moves with UCX (ucp_put_nbx and
// ucp_get_nbx, and what calls them): which bytes of whose memory, over which
// endpoint, and where that leads. On mlx5 devices UCX rings doorbells itself, so that
// bpf/verbs sees nothing of it.
//
// UCX is known by its symbols, whatever its file is called: wheels rename it. One
// attachment serves every process that has the file mapped; calls of processes that
// are not watched return after one look.
//
// It imports bpf/load, bpf/target, bpf/uprobe and, in its tests, the reader of its
// records (sidecar/source/ucp). It promises that every call is seen once, with what
// it returned; that a shape which is not followed is said (Flags); that a loss is
// counted; that it writes nothing into the process, and reads nothing of what is
// transferred. Each call is a record: calls that follow each other are not merged.
//
// An endpoint leads to the worker whose address it was made from. Of both, the first
// 16 bytes of that address are told, in which stands a number that is random for each
// worker.
//
// It does not see: what is sent as a message (tags, streams, active messages), whose
// receiver says where it lands; atomic operations; what a process writes by an
// address that ucp_rkey_ptr gave it, or lets its GPU write (both are told as a way
// around); a UCX that is linked into a program which exports nothing of it.
//
// Layouts are those of ucp/api/ucp.h of UCX 1.13 on x86-64; its structs grow at their
// ends only.
package ucp

//go:generate go tool bpf2go -go-package ucp -cc clang-16 -strip llvm-strip-16 -target amd64 -no-global-types -cflags "-O2 -g -mcpu=v3 -Wall -Werror -I../include" probe probe.bpf.c
