// Command kvwitness is the second pair of eyes on page ownership in LLM
// servers: it follows running engines (sidecar), judges recorded traces (replay),
// asks running services whether answers belong to their prompts (canary), checks
// deployments before they go on (gate), explains
// what it finds (explain) and shows its settings (config).
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/kvwitness/kvwitness/cmd/internal/build"
)

// Exit statuses.
const (
	statusFine      = 0
	statusError     = 2 // a file that cannot be read, a wrong flag, a wrong setting
	statusFound     = 3 // findings, failed checks
	statusUnchecked = 4 // it could not be checked
)

// errFound ends a command that found something: no error, but a status.
var errFound = errors.New("findings")

// errUnchecked ends a command that could not check all that it was to.
var errUnchecked = errors.New("not checked")

// statusOf is the end of a command whose exit status is known.
func statusOf(status int) error {
	switch status {
	case statusFine:
		return nil
	case statusFound:
		return errFound
	}
	return errUnchecked
}

func main() {
	os.Exit(run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

func run(ctx context.Context, args []string, in io.Reader, out, notes io.Writer) int {
	root := root()
	root.SetArgs(args)
	root.SetIn(in)
	root.SetOut(out)
	root.SetErr(notes)
	err := root.ExecuteContext(ctx)
	switch {
	case err == nil:
		return statusFine
	case errors.Is(err, errFound):
		return statusFound
	case errors.Is(err, errUnchecked):
		return statusUnchecked
	}
	fmt.Fprintln(notes, "kvwitness:", err)
	return statusError
}

func root() *cobra.Command {
	root := &cobra.Command{
		Use:     "kvwitness",
		Short:   "a second pair of eyes on KV-cache page ownership",
		Version: build.String(),
		Long: `kvwitness compares, for each handoff between LLM servers, which KV-cache pages
were reserved, which were really written and which were read, and says whose
data was exposed where they do not agree.`,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetVersionTemplate("kvwitness {{.Version}}\n")
	root.PersistentFlags().String("config", "", "settings file (.yaml, .toml or .json); also KVWITNESS_CONFIG")
	root.AddCommand(sidecarCommand(), checkCommand(), canaryCommand(), gateCommand(), demoCommand(), findingsCommand(), replayCommand(), explainCommand(), configCommand(), metricsCommand())
	return root
}
