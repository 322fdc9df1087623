// Package nvml is what the driver says of the GPUs: who holds how much of their
// memory, as facts that the judge compares with what engines claim.
//
// kvwitness-nvml asks the driver, in a process of its own that may hang or die; the
// [Keeper] starts it, replaces it, and keeps the last sample with its age; [Owners]
// joins the processes of a sample with instances. Nobody else waits for the driver.
//
// It imports engine/lifecycle, no rule, and no cgo. It promises:
//
//  1. "No driver", "driver and library differ", "gpu lost", "no permission", "reads
//     blank" and zero are different, in [State] and in what is left out: what the
//     driver did not say is absent.
//  2. A process is an instance's only by evidence: its number in the instance's own
//     namespace, and the socket that it serves or the GPU that it uses. Where two
//     could be meant, it is neither, and is called unattributed.
//  3. Nothing is said of an instance whose processes may hold more than was seen.
//  4. Every number of the helper's is bounded and checked before it is used.
//
// The driver knows processes and bytes. It knows no address, no page, no tenant
// within a process, not whether freed memory was zeroed, and not what RDMA peers
// touched.
package nvml
