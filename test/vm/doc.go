// Package vm tests what this machine's kernel cannot show: real verbs, and Linux
// 6.1. It boots Debian's kernel, which has rdma_rxe, in QEMU on this machine's files,
// and runs test/vm/guest there (boot.sh, ready.sh, init): unmodified perftest,
// unmodified Mooncake (mooncake.sh: the wheel that test/peers pins runs over rxe as it
// is), and kvengines with a sidecar on their node.
//
// The guest runs once for all tests of a run. Emulation in software distorts time:
// nothing here is a measure of speed.
package vm
