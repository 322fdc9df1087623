// Package metrics is what a sidecar tells Prometheus. Every metric stands once, in
// the table of define.go, with its unit, its help and the values that each of its
// labels can have; the collector and the reference in docs/METRICS.md are made
// from it.
//
// It imports the packages whose counts it shows, and promises:
//
//  1. A label has the values of its closed set, or the names of the engines that
//     are configured, or of the GPUs that the driver names, at most nvml.MaxDevices;
//     nothing that an engine says is ever a label, and no process is.
//  2. Every counter of a closed set is there from the start, at zero.
//  3. What is not known is absent, and never zero.
//  4. A scrape asks nobody but this process.
package metrics
