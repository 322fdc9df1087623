// Package process is the probe that tells of every program that is started on
// the node, so that one which is to be watched is found before it has said much.
//
// It imports the loader of BPF programs. It promises a record for each exec, or
// a count of those for which there was no room; then the processes are to be
// listed. It does not tell of forks: a child that runs no new program is found
// when processes are listed the next time.
package process

//go:generate go tool bpf2go -go-package process -cc clang-16 -strip llvm-strip-16 -target amd64 -no-global-types -cflags "-O2 -mcpu=v3 -Wall -Werror -I../include" probe probe.bpf.c
