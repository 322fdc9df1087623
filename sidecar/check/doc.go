// Package check looks at a machine for what a sidecar needs there: of the kernel,
// of this process's rights, of the processes that are to be watched, of the engines
// that are to be followed, and of the driver of GPUs.
//
// It imports sidecar/attach, sidecar/probe, sidecar/source/engineinfo,
// sidecar/source/nvml, bpf/target and engine/lifecycle/stream. It promises that
//   - it changes nothing: it reads files of /proc and /sys, asks engines what they
//     are, and starts a probe that watches nobody, for as long as that says hello, and
//     kvwitness-nvml for one sample;
//   - each need is met, not met, or could not be checked, with what was found and,
//     unless it is met, how to meet it;
//   - what is not there and not needed is met, in one line.
package check
