//go:build linux

// Command kvwitness-nvml asks NVIDIA's driver who holds how much memory of which
// GPU, and writes what it says to standard output, one sample a line, for the
// sidecar that started it. It is a process of its own because the driver's library
// may hang, or take the process with it: whoever reads the samples starts another.
//
// It ends when its standard input does, when a call does not return in time, and
// after the first failure of the library's initialisation, with the reason as its
// last sample. It needs no right but to open the devices; see README.md.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kvwitness/kvwitness/cmd/internal/build"
	"github.com/kvwitness/kvwitness/sidecar/source/nvml"
)

// Exit statuses.
const (
	statusWrong   = 1 // a flag, or nobody reads
	statusNothing = 2 // the last sample says why
)

// settings are what the command is told.
type settings struct {
	library  string        // path; empty: the driver's
	every    time.Duration // between samples
	deadline time.Duration // of one call
	once     bool
	connect  string // path of the sidecar's socket; empty: standard output
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, unix.SIGTERM)
	defer stop()
	s, err := parse(os.Args[1:])
	if err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return
		}
		fmt.Fprintln(os.Stderr, "kvwitness-nvml:", err)
		os.Exit(statusWrong)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	from, to, err := sidecar(ctx, s.connect)
	if err != nil {
		fmt.Fprintln(os.Stderr, "kvwitness-nvml:", err)
		os.Exit(statusWrong)
	}
	if !s.once {
		go func() {
			// The sidecar says nothing: what can be read is its end.
			_, _ = io.Copy(io.Discard, from)
			cancel()
		}()
	}
	out := &output{to: to}
	if err := run(ctx, s, out); err != nil {
		fmt.Fprintln(os.Stderr, "kvwitness-nvml:", err)
		os.Exit(statusNothing)
	}
}

// sidecar is the one who takes the samples: it started this process, or waits at a
// socket.
func sidecar(ctx context.Context, socket string) (io.Reader, io.Writer, error) {
	if socket == "" {
		return os.Stdin, os.Stdout, nil
	}
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", socket)
	if err != nil {
		return nil, nil, fmt.Errorf("connect to the sidecar: %w", err)
	}
	return conn, conn, nil
}

func parse(args []string) (s settings, err error) {
	flags := flag.NewFlagSet("kvwitness-nvml", flag.ContinueOnError)
	flags.StringVar(&s.library, "library", "", "path of the driver's library; empty: libnvidia-ml.so.1, where the loader finds it")
	flags.DurationVar(&s.every, "every", 2*time.Second, "time between samples")
	flags.DurationVar(&s.deadline, "deadline", 5*time.Second, "how long one call may take before the process gives up")
	flags.StringVar(&s.connect, "connect", "", "path of the socket at which the sidecar waits (gpu_socket), instead of standard output")
	flags.BoolVar(&s.once, "once", false, "write one sample and end")
	version := flags.Bool("version", false, "print the version and end")
	if err := flags.Parse(args); err != nil {
		return s, err
	}
	if *version {
		fmt.Println("kvwitness-nvml", build.String())
		return s, flag.ErrHelp
	}
	if s.every <= 0 || s.deadline <= 0 || flags.NArg() > 0 {
		return s, errors.New("--every and --deadline are above 0, and there are no other arguments")
	}
	return s, nil
}

// now is the node's monotonic clock in ns, that of the facts.
func now() int64 {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts) // the kernel always has this clock
	return ts.Nano()
}

// fresh is a sample that begins.
func fresh() *nvml.Sample { return &nvml.Sample{Version: nvml.Version, Begun: now()} }
