package main

import (
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/kvwitness/kvwitness/sidecar/config"
	"github.com/kvwitness/kvwitness/sidecar/ledger"
	"github.com/kvwitness/kvwitness/sidecar/replay"
)

// Widths of the output, in runes: of a file or pipe, and at most on a terminal.
const (
	pipeWidth = 100
	minWidth  = 40
	maxWidth  = 140
)

func replayCommand() *cobra.Command {
	var asJSON, verdicts bool
	cmd := &cobra.Command{
		Use:   "replay FILE...",
		Short: "judge recorded traces",
		Long: `replay reads traces (JSON Lines of format v1, plain or gzip, - for standard
input), merges several by time, and prints what was broken, by whom and whose
data was exposed: one incident a block, the strongest finding first.

Exit status: 0 no finding, 3 some, 2 a trace that cannot be read (what came
before the damage is judged) or a wrong setting.`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, files []string) error {
			cfg, _, err := loadConfig(cmd)
			if err != nil {
				return err
			}
			return replayFiles(cmd, cfg, files, asJSON, verdicts)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "one JSON object a line; the summary goes to standard error")
	cmd.Flags().BoolVar(&verdicts, "verdicts", false, "also the verdict on each request")
	config.Register(cmd.Flags())
	return cmd
}

func replayFiles(cmd *cobra.Command, cfg config.Config, files []string, asJSON, verdicts bool) error {
	boundMemory()
	traces, err := replay.Open(files, cmd.InOrStdin())
	if err != nil {
		return err
	}
	defer traces.Close()

	out, notes := cmd.OutOrStdout(), cmd.ErrOrStderr()
	log := logger(cfg.Log, notes)
	log.Debug("traces opened", "files", len(files), "settle", cfg.Judge.Settle, "cores", runtime.GOMAXPROCS(0))
	began := time.Now()
	look := lookOf(out)
	look.Verdicts, look.Wall = verdicts, traces.Wall
	if _, terminal := widthOf(notes); terminal {
		progress := replay.ShowProgress(notes, traces)
		defer progress.Stop()
		notes = progress.Before(notes)
		if _, same := widthOf(out); same {
			out = progress.Before(out)
		}
	}
	var output replay.Output = replay.NewText(out, look)
	if asJSON {
		output = replay.NewLines(out, notes, verdicts)
	}
	cfg.Judge.HoldVerdicts = true
	summary, err := replay.Run(traces, ledger.New(cfg.Judge), output)
	log.Debug("replay ended", "facts", summary.Facts, "findings", summary.Found(), "took", time.Since(began).Round(time.Millisecond))
	if err != nil {
		return err
	}
	if summary.Found() > 0 {
		return errFound
	}
	return nil
}

// boundMemory keeps the collector from running for every few facts, within
// bounds; whoever sets GOGC or GOMEMLIMIT decides instead.
func boundMemory() {
	const percent, limit = 400, 384 << 20
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(percent)
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(limit)
	}
}

// lookOf is how the output is to look where it goes.
func lookOf(out io.Writer) replay.Look {
	width, terminal := widthOf(out)
	if !terminal {
		return replay.Look{Width: pipeWidth}
	}
	color := os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	return replay.Look{Width: max(minWidth, min(width, maxWidth)), Color: color}
}

// widthOf is the width of the terminal that w is, if it is one.
func widthOf(w io.Writer) (width int, terminal bool) {
	file, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) {
		return 0, false
	}
	width, _, err := term.GetSize(int(file.Fd()))
	if err != nil || width == 0 {
		width = pipeWidth
	}
	return width, true
}
