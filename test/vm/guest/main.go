//go:build linux && amd64

// Command guest is what test/vm runs in its virtual machine: it watches real
// programs that use real verbs, over rdma_rxe, and prints what was seen as JSON,
// one object a check. The test on the host compares that with what was done.
//
//	guest [CHECK...]
//
// It imports bpf, sidecar/source, engine/model, test/cuda and test/live. It promises to end the processes that
// it starts.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Result is what one check saw.
type Result struct {
	Check   string
	Kernel  string
	Took    string // of an emulated clock
	Problem string // why the check failed

	// Of perftest, and of Mooncake.
	Requests uint64 // one-sided ones
	Bytes    uint64
	Calls    uint64            // of post_send, or of wr_complete
	Ops      map[string]uint64 // requests by operation
	Regions  uint64            // registrations seen
	InRegion uint64            // bytes whose address lies in a region that the other side registered
	Lost     uint64
	Peers    int               // queue pairs whose peer was told
	Done     map[string]uint64 // completions by status

	// Of engines.
	Answered  int
	Verdicts  []string // of each room, in order
	Whys      []string
	Found     []string // kinds of the last room
	Elsewhere []string // and of all others
}

// check is one thing to see.
type check struct {
	name string
	run  func(*Result) error
}

var checks = slices.Concat(drivers, perftests, peers, objects, engines)

// programs is where the commands are that were built for this run.
var programs string

func main() {
	self, err := os.Executable()
	if err != nil {
		fmt.Fprintln(os.Stderr, "guest:", err)
		os.Exit(1)
	}
	programs = filepath.Dir(self)
	go func() { _, _ = outsider() }() // what comes of it a check tells
	var failed bool
	for _, c := range checks {
		if wanted := os.Args[1:]; len(wanted) > 0 && !slices.Contains(wanted, c.name) {
			continue
		}
		r := Result{Check: c.name, Kernel: kernel(), Ops: map[string]uint64{}, Done: map[string]uint64{}}
		begun := time.Now()
		progress("%s begins", c.name)
		if err := c.run(&r); err != nil {
			r.Problem, failed = err.Error(), true
		}
		r.Took = time.Since(begun).Round(100 * time.Millisecond).String()
		if err := json.NewEncoder(os.Stdout).Encode(&r); err != nil {
			fmt.Fprintln(os.Stderr, "guest:", err)
			os.Exit(1)
		}
	}
	if s, err := outsider(); err == nil {
		s.Kill()
	}
	if failed {
		os.Exit(1)
	}
}

// progress tells whoever looks on how far it is.
func progress(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "%s "+format+"\n", append([]any{time.Now().Format(time.TimeOnly)}, args...)...)
}

func kernel() string {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return err.Error()
	}
	return strings.TrimRight(string(u.Release[:]), "\x00")
}
