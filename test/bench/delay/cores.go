package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"
)

// errOneCore: there is no core to give away.
var errOneCore = errors.New("-apart needs two cores")

// keepOff keeps this process off the last core.
func keepOff() error {
	if runtime.NumCPU() < 2 {
		return errOneCore
	}
	var rest unix.CPUSet
	for core := range runtime.NumCPU() - 1 {
		rest.Set(core)
	}
	return runOn(os.Getpid(), &rest)
}

// putApart gives a process the last core.
func putApart(pid int) error {
	var last unix.CPUSet
	last.Set(runtime.NumCPU() - 1)
	return runOn(pid, &last)
}

// runOn lets all threads of a process run on these cores, and those that they start.
func runOn(pid int, cores *unix.CPUSet) error {
	threads, err := os.ReadDir(filepath.Join("/proc", strconv.Itoa(pid), "task"))
	if err != nil {
		return fmt.Errorf("list the threads of process %d: %w", pid, err)
	}
	for _, t := range threads {
		id, err := strconv.Atoi(t.Name())
		if err == nil {
			err = unix.SchedSetaffinity(id, cores)
		}
		if err != nil && !errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("set the cores of thread %s: %w", t.Name(), err)
		}
	}
	return nil
}
