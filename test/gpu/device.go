//go:build linux

package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/kvwitness/kvwitness/test/nvml"
)

// device is where processes allocate.
type device interface {
	// hold starts a process that holds so many bytes, and more for its context.
	hold(bytes int) (pid int, end func(), err error)
	library() string // of the driver; empty: the real one
	close()
}

// real is a GPU.
type real struct{ bin string }

func (r *real) library() string { return "" }
func (r *real) close()          {}

func (r *real) hold(bytes int) (int, func(), error) {
	cmd := exec.Command(filepath.Join(r.bin, "holder"), strconv.Itoa(bytes))
	cmd.Stderr = os.Stderr
	return started(cmd, true)
}

// started starts a process that ends with its input; it says ready if it is asked to
// be waited for.
func started(cmd *exec.Cmd, wait bool) (pid int, end func(), err error) {
	in, err := cmd.StdinPipe()
	if err != nil {
		return 0, nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return 0, nil, err
	}
	if err := cmd.Start(); err != nil {
		return 0, nil, fmt.Errorf("hold memory: %w", err)
	}
	end = func() { _ = in.Close(); _ = cmd.Wait() }
	if wait {
		if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || strings.TrimSpace(line) != "ready" {
			end()
			return 0, nil, fmt.Errorf("hold memory: %s does not get it: %w", cmd.Path, io.ErrUnexpectedEOF)
		}
	}
	return cmd.Process.Pid, end, nil
}

// standIn is the driver of test/nvml: its processes hold what it is told.
type standIn struct {
	dir    string
	driver *nvml.Driver
	lines  map[int]int // bytes by process
}

func newStandIn() (*standIn, error) {
	dir, err := os.MkdirTemp("", "gpu")
	if err != nil {
		return nil, err
	}
	s := &standIn{dir: dir, lines: map[int]int{}}
	if s.driver, err = nvml.Build(dir); err != nil {
		return nil, err
	}
	if err := os.Setenv(s.driver.Env()); err != nil {
		return nil, err
	}
	return s, s.tell()
}

func (s *standIn) library() string { return s.driver.Library }
func (s *standIn) close()          { os.RemoveAll(s.dir) }

func (s *standIn) hold(bytes int) (int, func(), error) {
	pid, end, err := started(exec.Command("cat"), false)
	if err != nil {
		return 0, nil, err
	}
	s.lines[pid] = bytes + 400*mib
	return pid, func() { end(); delete(s.lines, pid); _ = s.tell() }, s.tell()
}

func (s *standIn) tell() error {
	used := 500 * mib
	var script nvml.Script
	for pid, bytes := range s.lines {
		used += bytes
		script = script.Say("process GPU-stand-in compute %d %d", pid, bytes)
	}
	return s.driver.Answer(append(nvml.Script{}.Say("gpu GPU-stand-in %d %d", 80*1024*mib, used), script...))
}
