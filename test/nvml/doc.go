// Package nvml is a stand-in for NVIDIA's driver: a library, written in C, that
// kvwitness-nvml loads as it loads the real one, and that answers what a test says.
//
// It imports nothing of kvwitness, and needs gcc. It promises that a call fails,
// hangs, crashes or answers nothing where the [Script] has it so, and that a call
// after a failed initialisation ends the process, as it may with the real one.
package nvml
