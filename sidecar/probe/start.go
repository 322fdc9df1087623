package probe

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kvwitness/kvwitness/sidecar/beside"
)

// Command is the name of the probe's executable.
const Command = "kvwitness-probe"

// Find is the path of the probe's executable.
func Find() (string, error) { return beside.Find(Command) }

// stopTimeout is how long a probe may take to end once its socket is closed.
const stopTimeout = 5 * time.Second

// StartConfig says how to start a probe.
type StartConfig struct {
	// Path of the executable.
	Path string
	// Match are the rules that name the processes to be watched: see
	// sidecar/attach. At least one.
	Match []string
	// Completions of RDMA requests are to be seen too, which each poll for them pays
	// for.
	Completions bool
	// CUDA: what processes ask of the CUDA driver's memory is to be seen too, but for
	// drivers whose version matches a pattern of CUDADeny.
	CUDA     bool
	CUDADeny []string
	// Copies by calls of the CUDA driver too, where that is seen.
	Copies bool
	// Stderr takes what the probe complains of; nil: nobody reads it.
	Stderr io.Writer
	// Attr is how the process is to be started; nil: as this one is.
	Attr *syscall.SysProcAttr
}

// Child is a probe that was started. Read it from one goroutine.
type Child struct {
	*Reader
	cmd *exec.Cmd
	end *os.File
}

// Start starts a probe and returns once it has said hello. It ends when ctx does,
// or with Close.
func Start(ctx context.Context, c StartConfig) (*Child, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("start the probe: %w", err)
	}
	ours, theirs := os.NewFile(uintptr(pair[0]), "probe"), os.NewFile(uintptr(pair[1]), "sidecar")
	defer theirs.Close()
	args := make([]string, 0, 2*len(c.Match))
	for _, m := range c.Match {
		args = append(args, "--match", m)
	}
	if c.Completions {
		args = append(args, "--completions")
	}
	if c.CUDA {
		args = append(args, "--cuda")
		for _, version := range c.CUDADeny {
			args = append(args, "--cuda-deny", version)
		}
		if c.Copies {
			args = append(args, "--cuda-copies")
		}
	}
	cmd := exec.CommandContext(ctx, c.Path, args...)
	cmd.ExtraFiles = []*os.File{theirs}
	cmd.Stderr, cmd.SysProcAttr = c.Stderr, c.Attr
	cmd.WaitDelay = stopTimeout
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("start the probe: %w", err), ours.Close())
	}
	// Ours is the only end that is left here: its peer's death ends it.
	if err := theirs.Close(); err != nil {
		return nil, errors.Join(fmt.Errorf("start the probe: %w", err), ours.Close(), cmd.Wait())
	}
	p := &Child{cmd: cmd, end: ours}
	if p.Reader, err = NewReader(ours); err != nil {
		return nil, errors.Join(fmt.Errorf("start the probe: %w", err), ours.Close(), cmd.Wait())
	}
	return p, nil
}

// PID of the probe.
func (p *Child) PID() int { return p.cmd.Process.Pid }

// Close ends the probe and waits for it. An error is the probe's own.
func (p *Child) Close() error {
	err := p.end.Close()
	kill := time.AfterFunc(stopTimeout, func() { _ = p.cmd.Process.Kill() })
	defer kill.Stop()
	if waited := p.cmd.Wait(); waited != nil {
		err = errors.Join(err, fmt.Errorf("the probe ended: %w", waited))
	}
	return err
}
