//go:build linux && amd64

// Command kvwitness-probe is the only part of kvwitness that has rights: it
// loads the programs that watch engines from within the kernel, keeps the list
// of processes that they look at, and hands what they say on to the sidecar,
// unread. It listens nowhere and parses no message of an engine. See README.md
// for each right and its reason.
//
// It ends when its sidecar does.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"

	"golang.org/x/sys/unix"

	"github.com/kvwitness/kvwitness/bpf/cuda"
	"github.com/kvwitness/kvwitness/cmd/internal/build"
	"github.com/kvwitness/kvwitness/sidecar/attach"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, unix.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "kvwitness-probe:", err)
		os.Exit(1)
	}
}

// settings are what the command is told.
type settings struct {
	rules   []attach.Rule
	fd      int
	connect string
	proc    string

	completions bool
	cuda        bool
	copies      bool     // by calls of the CUDA driver
	deny        []string // versions of the CUDA driver
}

func parse(args []string) (s settings, err error) {
	flags := flag.NewFlagSet("kvwitness-probe", flag.ContinueOnError)
	flags.Func("match", "watch processes that match KIND=PATTERN: pid, exe, command, cgroup or container; again for more", func(text string) error {
		if len(s.rules) == attach.MaxRules {
			return fmt.Errorf("more than %d rules", attach.MaxRules)
		}
		r, err := attach.ParseRule(text)
		s.rules = append(s.rules, r)
		return err
	})
	flags.IntVar(&s.fd, "fd", 3, "descriptor of the socket to the sidecar, inherited from it")
	flags.StringVar(&s.connect, "connect", "", "path of the socket on which the sidecar listens, instead of --fd")
	flags.StringVar(&s.proc, "proc", "/proc", "where the node's /proc is mounted")
	flags.BoolVar(&s.completions, "completions", false, "see how each RDMA request ends; that taxes every poll for completions")
	flags.BoolVar(&s.cuda, "cuda", false, "see what processes allocate of the CUDA driver, and who opens it; each such call pays for it")
	flags.BoolVar(&s.copies, "cuda-copies", false, "with --cuda: see what processes copy by calls of the CUDA driver; each copy pays for it")
	flags.Func("cuda-deny", "attach to no CUDA driver of this version, such as 550.54.15 or 560.*; again for more", func(text string) error {
		if len(s.deny) == cuda.MaxDenied || !cuda.ValidDeny(text) {
			return fmt.Errorf("not a version, or more than %d of them", cuda.MaxDenied)
		}
		s.deny = append(s.deny, text)
		return nil
	})
	version := flags.Bool("version", false, "print the version and end")
	if err := flags.Parse(args); err != nil {
		return s, err
	}
	if *version {
		fmt.Println("kvwitness-probe", build.String())
		return s, flag.ErrHelp
	}
	if len(s.rules) == 0 || flags.NArg() > 0 {
		return s, errors.New("nothing to watch: give at least one --match KIND=PATTERN, and no other arguments")
	}
	return s, nil
}

func run(ctx context.Context, args []string) error {
	s, err := parse(args)
	if err != nil {
		return err
	}
	out, err := dial(s)
	if err != nil {
		return err
	}
	defer out.Close()
	l, err := open(s, out)
	if err != nil {
		return err
	}
	defer l.close()
	if err := drop(keptRights()); err != nil {
		return err
	}
	if err := l.out.Flush(); errors.Is(err, unix.EPIPE) {
		return nil // the sidecar is gone
	} else if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		// The sidecar says nothing: what can be read is its end.
		_, _ = out.Read(make([]byte, 1))
		cancel()
	}()
	return l.run(ctx)
}

// dial opens the socket to the sidecar.
func dial(s settings) (*os.File, error) {
	fd := s.fd
	if s.connect != "" {
		var err error
		if fd, err = unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0); err != nil {
			return nil, fmt.Errorf("connect to the sidecar: %w", err)
		}
		if err := unix.Connect(fd, &unix.SockaddrUnix{Name: s.connect}); err != nil {
			return nil, fmt.Errorf("connect to the sidecar at %s: %w", s.connect, err)
		}
	}
	if kind, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE); err != nil || kind != unix.SOCK_STREAM {
		return nil, fmt.Errorf("descriptor %d is no socket of a sidecar: the sidecar starts this command, or --connect names its socket", fd)
	}
	if err := unix.SetNonblock(fd, true); err != nil {
		return nil, fmt.Errorf("use the socket to the sidecar: %w", err)
	}
	return os.NewFile(uintptr(fd), "sidecar"), nil
}
