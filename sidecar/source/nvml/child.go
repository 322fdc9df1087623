package nvml

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"

	"github.com/kvwitness/kvwitness/sidecar/beside"
	"github.com/kvwitness/kvwitness/sidecar/beside/listen"
)

// Command is the name of the helper's executable.
const Command = "kvwitness-nvml"

// Find is the path of the helper's executable.
func Find() (string, error) { return beside.Find(Command) }

const (
	// stopTimeout is how long a helper may take to end once it is asked to, and then
	// once it is killed: one that hangs in the kernel is left behind.
	stopTimeout = time.Second
	// DefaultSilence is how much longer than its own limits a helper may say nothing.
	DefaultSilence = 30 * time.Second
)

// StartConfig says how to start a helper. Zero durations mean its own defaults.
type StartConfig struct {
	Path     string        // of the executable
	Socket   string        // for Await: where the helper connects
	Library  string        // of the driver; empty: the loader finds it
	Every    time.Duration // between samples
	Deadline time.Duration // of one call of the driver
	Silence  time.Duration // that is borne beyond both; 0: DefaultSilence
	Once     bool          // one sample is enough
	Stderr   io.Writer     // takes what the helper complains of; nil: nobody reads it
}

// pipe is where a helper's samples come from.
type pipe interface {
	io.ReadCloser
	SetReadDeadline(time.Time) error
}

// Child is a helper that was started. It is for one goroutine.
type Child struct {
	cmd   *exec.Cmd // nil: something else started it
	in    io.Closer // its standard input: its end ends it
	out   pipe
	lines *bufio.Reader
	quiet time.Duration
	ended chan struct{}
	err   error // of Wait
}

// Start starts a helper. It ends with Close, and not by being killed unless it must:
// who is killed within the driver may take the GPU along.
func Start(c StartConfig) (*Child, error) {
	var args []string
	for name, d := range map[string]time.Duration{"--every": c.Every, "--deadline": c.Deadline} {
		if d > 0 {
			args = append(args, name, d.String())
		}
	}
	if c.Library != "" {
		args = append(args, "--library", c.Library)
	}
	if c.Once {
		args = append(args, "--once")
	}
	cmd := exec.Command(c.Path, args...)
	cmd.Stderr, cmd.WaitDelay = c.Stderr, stopTimeout
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", Command, err)
	}
	out, theirs, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", Command, err)
	}
	cmd.Stdout = theirs
	err = errors.Join(cmd.Start(), theirs.Close())
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start %s: %w", Command, err), out.Close())
	}
	child := &Child{
		cmd: cmd, in: in, out: out, lines: bufio.NewReaderSize(out, MaxLine), ended: make(chan struct{}),
		quiet: c.quiet(),
	}
	go func() { defer close(child.ended); child.err = cmd.Wait() }()
	return child, nil
}

// Await waits for a helper that something else starts (kvwitness-nvml --connect), at the
// socket of c. It ends with Close, or when whoever started it ends it.
func Await(ctx context.Context, c StartConfig) (*Child, error) {
	conn, err := listen.Accept(ctx, c.Socket)
	if err != nil {
		return nil, err
	}
	child := &Child{in: conn, out: conn, lines: bufio.NewReaderSize(conn, MaxLine), ended: make(chan struct{}), quiet: c.quiet()}
	close(child.ended)
	return child, nil
}

// quiet is for how long a helper may say nothing.
func (c *StartConfig) quiet() time.Duration {
	silence := c.Silence
	if silence <= 0 {
		silence = DefaultSilence
	}
	return silence + c.Every + 2*c.Deadline
}

// PID of the helper.
func (c *Child) PID() int { return c.cmd.Process.Pid }

// Next waits for a sample. After an error the helper is of no more use.
func (c *Child) Next() (*Sample, error) {
	if err := c.out.SetReadDeadline(time.Now().Add(c.quiet)); err != nil {
		return nil, fmt.Errorf("read from %s: %w", Command, err)
	}
	line, err := c.lines.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		return nil, fmt.Errorf("read from %s: %w: a line of more than %d bytes", Command, ErrFormat, MaxLine)
	}
	if err != nil {
		return nil, fmt.Errorf("read from %s: %w", Command, err)
	}
	return Decode(line)
}

// Close ends the helper. stuck reports that it did not end: its threads hang in the
// kernel. Ended then tells when it does. An error is how the helper ended.
func (c *Child) Close() (stuck bool, err error) {
	err = c.in.Close()
	if c.cmd == nil {
		return false, err
	}
	// What it still says is read, so that it need not wait, or die of a closed pipe.
	if deadline := c.out.SetReadDeadline(time.Time{}); deadline == nil {
		go func() { _, _ = io.Copy(io.Discard, c.out) }()
	}
	for _, end := range [...]func() error{func() error { return nil }, c.cmd.Process.Kill} {
		_ = end() // it may have ended by itself
		select {
		case <-c.ended:
			return false, errors.Join(err, c.out.Close(), c.err)
		case <-time.After(stopTimeout):
		}
	}
	return true, errors.Join(err, c.out.Close())
}

// Ended is closed once the helper is gone.
func (c *Child) Ended() <-chan struct{} { return c.ended }
