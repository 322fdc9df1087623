// Command mutate shows, rule by rule, that the tests guard the ledger: it
// switches one rule or one clause of a hard case off, runs the tests, and says
// which of them noticed.
//
//	go run ./test/mutate [-run REGEXP] [-list] [-json] [-v] [-j N] [-sim=false]
//
// A mutant is the ledger with one small edit, out of the tables in kinds*.go
// and cases*.go. It is made with go test -overlay, so the working tree is never
// touched and mutants run side by side. First the traces are asked (test/traces
// and test/mutate/traces), then the ledger's own tests, and of what is left the
// simulation's. Progress goes to stderr, the table to stdout. The exit status is 0 if
// every mutant was killed, else 1; 2 is a wrong flag.
//
// It imports sidecar/finding, for the names of the kinds, and nothing else of
// the project. It promises that a mutant whose place in the ledger is not found
// exactly once, that does not compile, or whose tests fail without a failing
// test, is an error and never a kill.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"slices"
	"syscall"
)

// The exit statuses.
const (
	allKilled = 0
	notAll    = 1
	usage     = 2
)

// options are what the command line says.
type options struct {
	only    *regexp.Regexp
	list    bool
	json    bool
	verbose bool
	jobs    int
	sim     bool
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	status := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(status)
}

func run(ctx context.Context, args []string, out, progress io.Writer) int {
	opts, err := parse(args, progress)
	if errors.Is(err, flag.ErrHelp) {
		return allKilled
	}
	if err != nil {
		fmt.Fprintln(progress, err)
		return usage
	}
	chosen := slices.DeleteFunc(mutants(), func(m mutant) bool { return !opts.only.MatchString(m.name()) })
	if len(chosen) == 0 {
		fmt.Fprintf(progress, "no mutant has a name that matches %q; -list shows them all\n", opts.only)
		return usage
	}
	if opts.list {
		listTable(out, chosen)
		return allKilled
	}
	results, err := judge(ctx, opts, chosen, progress)
	if err != nil {
		fmt.Fprintln(progress, err)
		return notAll
	}
	if err := report(out, opts, results); err != nil {
		fmt.Fprintln(progress, err)
		return notAll
	}
	if slices.ContainsFunc(results, func(r result) bool { return r.Outcome != killed }) {
		return notAll
	}
	return allKilled
}

func parse(args []string, progress io.Writer) (options, error) {
	opts := options{}
	fs := flag.NewFlagSet("mutate", flag.ContinueOnError)
	fs.SetOutput(progress)
	only := fs.String("run", "", "only mutants whose name (rule/clause) matches this regular `expression`")
	fs.BoolVar(&opts.list, "list", false, "list the mutants and run nothing")
	fs.BoolVar(&opts.json, "json", false, "print one JSON object a mutant instead of the table")
	fs.BoolVar(&opts.verbose, "v", false, "show the edits of mutants that survive, and what a failing test said")
	fs.IntVar(&opts.jobs, "j", 2, "how many mutants run side by side")
	fs.BoolVar(&opts.sim, "sim", true, "ask the simulation of what the other tests leave alive")
	if err := fs.Parse(args); err != nil {
		return opts, err
	}
	if fs.NArg() > 0 {
		return opts, fmt.Errorf("%q: mutate takes flags only; -run selects mutants", fs.Arg(0))
	}
	if opts.jobs < 1 {
		return opts, fmt.Errorf("-j %d: at least one mutant must run at a time", opts.jobs)
	}
	var err error
	if opts.only, err = regexp.Compile(*only); err != nil {
		return opts, fmt.Errorf("-run: %w", err)
	}
	return opts, nil
}

// judge runs the tests without a mutant, which must be green, and then every
// chosen mutant.
func judge(ctx context.Context, opts options, chosen []mutant, progress io.Writer) ([]result, error) {
	root, err := moduleRoot(ctx)
	if err != nil {
		return nil, err
	}
	scratch, err := os.MkdirTemp("", "mutate-")
	if err != nil {
		return nil, fmt.Errorf("making a folder for the mutants: %w", err)
	}
	defer os.RemoveAll(scratch)
	b := newBench(root, scratch, opts.sim)
	fmt.Fprintln(progress, "the tests without a mutant")
	if err := b.baseline(ctx); err != nil {
		return nil, err
	}
	return b.all(ctx, chosen, opts.jobs, func(done int, r result) {
		fmt.Fprintf(progress, "%3d/%d %-8s %s%s\n", done, len(chosen), r.Outcome, r.Mutant, by(r))
	}), ctx.Err()
}

func by(r result) string {
	if r.KilledBy != "" {
		return " by " + r.KilledBy
	}
	return ""
}
