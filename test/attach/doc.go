// Package attach holds what the sidecar, the gate and the canary are attached to in
// tests: servers that give the answers and metrics of SGLang and of vLLM in several
// versions, made from lists of their fields, and kvengine as real processes.
//
// It imports test/live. Tests use it.
package attach
