//go:build linux && amd64

package main

import (
	"errors"
	"io/fs"

	"golang.org/x/sys/unix"

	"github.com/kvwitness/kvwitness/bpf/cuda"
)

// drivers are where the CUDA driver's library is installed, by distributions and where
// container runtimes put it. Like libibverbs it is attached to before anybody loads it.
var drivers = []string{
	"/usr/lib/x86_64-linux-gnu/libcuda.so.1", "/usr/lib64/libcuda.so.1", "/lib64/libcuda.so.1", "/usr/local/nvidia/lib64/libcuda.so.1",
}

// driverUse is what is known of how a process uses the CUDA driver.
type driverUse struct {
	without int64 // ns, when it had not mapped it yet; 0: not known
	told    bool  // whether all of it is seen was told,
	why     string
}

// lookDriver attaches to the CUDA driver as a process has it mapped, and tells whether
// all that it asks of it is seen, when that is news.
func (a *attacher) lookDriver(u *user) (r answered, news bool) {
	now := monotonic()
	since, err := a.driver.Watch(u.pid)
	why := ""
	switch {
	case errors.Is(err, cuda.ErrNoDriver):
		u.driver.without = now
		return r, false
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ESRCH):
		return r, false // it has ended
	case err != nil:
		why = err.Error()
	case since > u.driver.without:
		why = "it may have used the CUDA driver before the witness was there: let it start anew"
	}
	if u.driver.told && u.driver.why == why {
		return r, false
	}
	u.driver.told, u.driver.why = true, why
	r.asked = asked{what: watchDriver, pid: u.pid, t: now}
	if why != "" {
		r.err = errors.New(why)
	}
	return r, true
}
