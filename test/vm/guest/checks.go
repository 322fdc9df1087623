//go:build linux && amd64

package main

import (
	"slices"

	"github.com/kvwitness/kvwitness/bpf/verbs"
)

// objects is a check that a sidecar and its probe begin to watch: each of the BPF
// objects is loaded then. Of verbs each shape has a run of perftest too.
var objects = []check{{"objects", watches}}

// drivers is what a process asks of the CUDA driver's memory, of which there is a
// stand-in.
var drivers = []check{{"cuda", memory}, {"cuda-lent", lent}}

// other is what is not by default.
var other = verbs.Options{ShortChains: true, Completions: true}

// perftests are runs of perftest's server and client under the probe.
var perftests = []check{
	{"write", perftest{program: "ib_write_bw", args: []string{"-n", "200", "-s", "65536"}}.run},
	{"write-lists", perftest{program: "ib_write_bw", args: []string{"-n", "64", "-s", "4096", "-l", "16"}}.run},
	{"read", perftest{program: "ib_read_bw", args: []string{"-n", "100", "-s", "65536"}}.run},
	{"read-lists", perftest{program: "ib_read_bw", args: []string{"-n", "64", "-s", "4096", "-l", "16"}, opts: other}.run},
	{"write-completions", perftest{program: "ib_write_bw", args: []string{"-n", "50", "-s", "65536"}, opts: other}.run},
}

// peers are unmodified transfer engines of others.
var peers = []check{{"mooncake", mooncake}}

// short are the verdicts where the last handoff is short: the one that proves the path
// is not witnessed yet.
var short = []string{"unwitnessed", "clean", "clean", "violated"}

// engines are kvengines, seen by a sidecar.
var engines = []check{
	{"verbs-untold", handoffs{transfer: "verbs", drill: "rejected-handoff", normal: 3, want: short}.run},
	{"tcp-untold", handoffs{transfer: "tcp", drill: "rejected-handoff", normal: 3, want: short}.run},
	{"verbs-lying", handoffs{transfer: "verbs", stream: true, drill: "lying-engine", normal: 2, want: slices.Delete(slices.Clone(short), 1, 2)}.run},
}
