// Package process is the probe that tells of every program that is started on
// the node, and has it watched until user space has decided whether it is to be:
// so that nothing of what it says first is missed.
//
// It imports the loader of BPF programs. It promises a record for each exec,
// before anything that the program does; or a count of those for which there was
// no room: then the processes are to be listed. Who takes a record out either
// keeps the process among the targets or deletes it there. It does not tell of
// forks: a child that runs no new program is found when processes are listed the
// next time.
package process

//go:generate go tool bpf2go -go-package process -cc clang-16 -strip llvm-strip-16 -target amd64 -no-global-types -cflags "-O2 -mcpu=v3 -Wall -Werror -I../include" probe probe.bpf.c
