// Package witness plays whole handoffs under the probe, on the kernel of this
// machine: engines that say nothing of themselves, and what is found out about
// them from outside.
//
// Its tests need the rights to load programs into the kernel, and fail without
// them.
package witness
