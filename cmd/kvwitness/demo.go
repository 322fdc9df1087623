package main

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/kvwitness/kvwitness/cmd/internal/demo"
)

func demoCommand() *cobra.Command {
	var cfg demo.Config
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "play the incident with running engines, and show what was found",
		Long: `demo starts a prefill, a decode, a router and a sidecar as processes on free
loopback ports, and plays five scenarios with secrets made for this run: the drill
of the incident, the same with page tags on, and with all protections, normal
traffic, and an engine that lies; with a real model (--model) the first three. As
root the sidecar also watches the engines from outside, which makes normal traffic
clean and gives the liar away. It ends with status 0 if all came as it should.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			if cfg.Self, err = os.Executable(); err != nil {
				return fmt.Errorf("find this command: %w", err)
			}
			if cfg.Engine == "" {
				if cfg.Engine, err = demo.Engine(); err != nil {
					return err
				}
			}
			cfg.Out, cfg.Notes = cmd.OutOrStdout(), cmd.ErrOrStderr()
			return demo.Run(ctx, cfg)
		},
	}
	cmd.Flags().BoolVar(&cfg.JSON, "json", false, "one JSON object a scenario")
	cmd.Flags().BoolVar(&cfg.Keep, "keep", false, "leave the drilled engines running until interrupted, and print where they are")
	cmd.Flags().BoolVar(&cfg.Claims, "claims-only", false, "watch nothing from outside, as without the rights")
	cmd.Flags().StringVar(&cfg.Model, "model", "", "GGUF file of a model for the engines (make model fetches a small one); empty: the built-in one")
	cmd.Flags().StringVar(&cfg.Engine, "kvengine", "", "path of kvengine; empty: beside kvwitness, or on the path")
	return cmd
}
