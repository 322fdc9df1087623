// Command kvengine is a reference engine whose pages are real, with drills: it
// serves a small built-in model (serve), joins prefill and decode (router), and
// lists the faults that it can commit on purpose (drills).
package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/kvwitness/kvwitness/cmd/internal/build"
	"github.com/kvwitness/kvwitness/engine/config"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := root().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "kvengine:", err)
		os.Exit(2)
	}
}

func root() *cobra.Command {
	root := &cobra.Command{
		Use:           "kvengine",
		Short:         "a reference engine whose pages are real, with drills",
		Version:       build.String(),
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetVersionTemplate("kvengine {{.Version}}\n")
	root.PersistentFlags().String("config", "", "settings file (.yaml, .toml or .json); also KVENGINE_CONFIG")
	root.AddCommand(serveCommand(), routerCommand(), drillsCommand(), gpuCommand())
	return root
}

// load reads a command's settings.
func load(cmd *cobra.Command, table config.Table) error {
	file, err := cmd.Flags().GetString("config")
	if err != nil {
		return err
	}
	return table.Load(config.Source{File: file, Env: os.Environ(), Flags: cmd.Flags()})
}

func logger(l config.Log) *slog.Logger {
	options := &slog.HandlerOptions{Level: l.Level}
	if l.JSON {
		return slog.New(slog.NewJSONHandler(os.Stderr, options))
	}
	return slog.New(slog.NewTextHandler(os.Stderr, options))
}
