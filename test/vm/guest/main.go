//go:build linux && amd64

// Command guest is what test/vm runs in its virtual machine: it watches real
// programs that use real verbs, over rdma_rxe, and prints what was seen as JSON,
// one object a check. The test on the host compares that with what was posted.
//
// It imports bpf/verbs. It promises to end the processes that it starts.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// Result is what one check saw.
type Result struct {
	Check    string
	Kernel   string
	Requests uint64 // one-sided ones
	Bytes    uint64
	Calls    uint64            // of post_send, or of wr_complete
	Ops      map[string]uint64 // requests by operation
	Regions  uint64            // registrations seen
	InRegion uint64            // bytes whose address lies in a region that the other side registered
	Lost     uint64
	Peers    int               // queue pairs whose peer was told
	Done     map[string]uint64 // completions by status
	Problem  string            // why the check failed
}

func main() {
	var failed bool
	for _, c := range checks {
		r, err := c.run()
		r.Check, r.Kernel = c.name, kernel()
		if err != nil {
			r.Problem, failed = err.Error(), true
		}
		if err := json.NewEncoder(os.Stdout).Encode(r); err != nil {
			fmt.Fprintln(os.Stderr, "guest:", err)
			os.Exit(1)
		}
	}
	if failed {
		os.Exit(1)
	}
}

func kernel() string {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return err.Error()
	}
	return strings.TrimRight(string(u.Release[:]), "\x00")
}
