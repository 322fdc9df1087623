package main

import (
	"errors"
	"slices"

	"github.com/spf13/cobra"

	"github.com/kvwitness/kvwitness/cmd/internal/build"
	"github.com/kvwitness/kvwitness/sidecar/attach"
	"github.com/kvwitness/kvwitness/sidecar/check"
	"github.com/kvwitness/kvwitness/sidecar/config"
)

func checkCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "check",
		Short: "say what this machine lacks for a sidecar, and how to mend it",
		Long: `check looks at what a sidecar with these settings needs of this machine: its kernel,
this process's rights, the probe, the processes that --watch names, the engines
that --engines names, and the driver of GPUs. It changes nothing; it starts a probe that watches nobody and
ends it again.

  sudo kvwitness check --watch exe=kvengine --engines decode-0=http://127.0.0.1:30002

Exit status 0: each need is met; 3: some need is not; 4: some could not be checked.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, _, err := loadConfig(cmd)
			if err != nil {
				return err
			}
			needs, err := allNeeds(cmd, &cfg)
			if err != nil {
				return err
			}
			write := check.Write
			if asJSON {
				write = check.WriteJSON
			}
			if err := write(cmd.OutOrStdout(), needs); err != nil {
				return err
			}
			switch check.Worst(needs) {
			case check.Unmet:
				return errFound
			case check.Unknown:
				return errUnchecked
			case check.Met:
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "one JSON object a line")
	config.RegisterAll(cmd.Flags())
	return cmd
}

func allNeeds(cmd *cobra.Command, cfg *config.Config) ([]check.Need, error) {
	m, err := check.ThisMachine()
	if err != nil {
		return nil, err
	}
	var rules []attach.Rule
	var failed error
	for _, text := range cfg.Sidecar.Watch {
		r, err := attach.ParseRule(text)
		failed = errors.Join(failed, err)
		rules = append(rules, r)
	}
	if failed != nil {
		return nil, failed
	}
	ctx := cmd.Context()
	return slices.Concat(m.Kernel(), m.Probe(ctx, build.String()), m.Processes(rules), check.Engines(ctx, &cfg.Sidecar), []check.Need{check.GPUs(ctx, &cfg.GPUs, "")}), nil
}
