// Package vm tests what this machine's kernel cannot show: real verbs. It boots
// Debian's kernel, which has rdma_rxe, in QEMU on this machine's files, and runs
// test/vm/guest there under unmodified perftest (boot.sh, ready.sh, init).
//
// Emulation in software distorts time: nothing here is a measure of speed.
package vm
