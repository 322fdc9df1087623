// Package demo plays the incident that kvwitness answers, live: it starts two
// engines, a router and a sidecar as processes on free loopback ports, sends them
// requests of tenants with secrets made for this run, and compares what the
// clients got with what the sidecar said.
//
// It imports no package of engine or sidecar: what it knows it has from their
// commands and their HTTP, as anybody has. It promises: what it started is ended
// with it, also when it is killed; it fails if anything is not as it should be;
// every number that it prints was measured in this run.
package demo
