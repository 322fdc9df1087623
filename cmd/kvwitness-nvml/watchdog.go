//go:build linux && cgo

package main

import (
	"os"
	"sync"
	"time"

	"github.com/kvwitness/kvwitness/sidecar/source/nvml"
)

// writeTimeout is how long the last word may take if nobody reads.
const writeTimeout = time.Second

// watchdog ends the process when a call does not return: a thread that hangs in
// the driver cannot be called back.
type watchdog struct {
	deadline time.Duration
	out      *output
	exit     func(status int)

	mu     sync.Mutex
	call   string // empty: none is under way
	device string
	since  time.Time
}

func newWatchdog(deadline time.Duration, out *output) *watchdog {
	return &watchdog{deadline: deadline, out: out, exit: os.Exit}
}

func (w *watchdog) begin(call, device string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.call, w.device, w.since = call, device, time.Now()
}

func (w *watchdog) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.call = ""
}

// late is the call that is under way for too long.
func (w *watchdog) late() (call, device string, is bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.call, w.device, w.call != "" && time.Since(w.since) > w.deadline
}

// run watches until a call is too late, and ends the process.
func (w *watchdog) run() {
	for {
		time.Sleep(min(w.deadline/4, time.Second))
		call, device, is := w.late()
		if !is {
			continue
		}
		s := fresh()
		s.State, s.Call, s.Said = nvml.Hangs, call, device
		written := make(chan struct{})
		go func() { defer close(written); _ = w.out.write(s) }()
		select {
		case <-written:
		case <-time.After(writeTimeout):
		}
		w.exit(statusNothing)
		return
	}
}
