//go:build linux

// Command gpu checks on a machine with a GPU what kvwitness says of it: against the
// real driver and real allocations, or with --stand-in against the driver of
// test/nvml, which shows that the checks work and nothing else. run.sh builds what it
// needs and calls it.
//
// It writes a line for each check, and how the driver answered, to results.txt in
// --out; its exit status is 1 if a check failed.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const (
	mib = 1 << 20
	// held is what the engine's process allocates, claimed what its pool takes of it.
	held, claimed = 2048 * mib, 1024 * mib
	strange       = 256 * mib // what another process allocates
	// large is how many times that a pool claims which its process cannot hold.
	large = 32
	// patience is how long a state may take to come about.
	patience = time.Minute
)

// settings are what the command is told.
type settings struct {
	bin     string // where kvwitness, kvwitness-nvml and holder are
	out     string
	standIn bool
}

func main() {
	var s settings
	flag.StringVar(&s.bin, "bin", "", "folder of kvwitness, kvwitness-nvml and holder")
	flag.StringVar(&s.out, "out", ".", "folder for the results")
	flag.BoolVar(&s.standIn, "stand-in", false, "ask the driver of test/nvml instead of a real one")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, unix.SIGTERM)
	defer stop()
	failed, err := run(ctx, s)
	if err != nil {
		fmt.Fprintln(os.Stderr, "gpu:", err)
	}
	if err != nil || failed > 0 {
		os.Exit(1)
	}
}

// run makes all checks and says how many failed.
func run(ctx context.Context, s settings) (failed int, err error) {
	out, err := os.Create(filepath.Join(s.out, "results.txt"))
	if err != nil {
		return 0, err
	}
	defer out.Close()
	r := &report{to: io.MultiWriter(out, os.Stdout)}
	var gpu device
	if s.standIn {
		gpu, err = newStandIn()
		r.say("against a stand-in for the driver: this shows nothing of a GPU")
	} else {
		gpu = &real{bin: s.bin}
	}
	if err != nil {
		return 0, err
	}
	defer gpu.close()
	if err := r.costs(s, gpu); err != nil {
		return r.failed, err
	}
	for _, c := range []struct {
		times uint32 // what is claimed
		check func(n *node) error
	}{{1, r.fits}, {large, r.isTooLarge}} {
		n, err := newNode(ctx, s, gpu, c.times)
		if err != nil {
			return r.failed, err
		}
		err = c.check(n)
		n.close()
		if err != nil {
			return r.failed, err
		}
	}
	return r.failed, nil
}

// report writes what was checked.
type report struct {
	to     io.Writer
	failed int
}

func (r *report) say(format string, args ...any) { fmt.Fprintf(r.to, format+"\n", args...) }

// until waits until a check holds, or it has failed.
func (r *report) until(what string, holds func() (bool, string)) {
	var ok bool
	var seen string
	for end := time.Now().Add(patience); !ok && time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		ok, seen = holds()
	}
	word := "ok    "
	if !ok {
		word = "FAILED"
		r.failed++
	}
	r.say("%s %s: %s", word, what, strings.TrimSpace(seen))
}

// fits checks a node whose engine holds what it claims.
func (r *report) fits(n *node) error {
	r.until("the memory of the engine is known", func() (bool, string) {
		i := n.instance()
		return i.Unknown == "" && i.Held >= held, fmt.Sprintf("%d bytes, at least %d; %s", i.Held, held, i.Unknown)
	})
	n.settle()
	found := n.findings()
	r.until("a pool that fits accuses nobody", func() (bool, string) {
		return !strings.Contains(found, "vram_mismatch"), fmt.Sprint(len(found), " bytes of findings")
	})
	stranger, end, err := n.gpu.hold(strange)
	if err != nil {
		return err
	}
	text := fmt.Sprintf("process %d, of no engine, holds", stranger)
	r.until("a foreign process is found", func() (bool, string) { return strings.Contains(n.findings(), text), text })
	r.until("the metrics tell of the GPU and of no process", func() (bool, string) {
		text := n.get("/metrics")
		return strings.Contains(text, `owner="engine"`) && !strings.Contains(text, fmt.Sprintf(`="%d"`, stranger)), fmt.Sprint(strings.Count(text, "kvwitness_gpu_"), " lines about GPUs")
	})
	end()
	return nil
}

// isTooLarge checks one whose engine claims more than it holds.
func (r *report) isTooLarge(n *node) error {
	r.until("a pool larger than what its process holds is found", func() (bool, string) {
		text := fmt.Sprintf("its pools take %d bytes", uint64(claimed)*large)
		return strings.Contains(n.findings(), text), text + "; " + n.instance().Unknown
	})
	return nil
}
