package main

import (
	"io"
	"log/slog"
	"os"

	"github.com/spf13/cobra"

	"github.com/kvwitness/kvwitness/sidecar/config"
)

// loadConfig reads the settings of a command that has their flags.
func loadConfig(cmd *cobra.Command) (config.Config, config.Origin, error) {
	file, err := cmd.Flags().GetString("config")
	if err != nil {
		return config.Config{}, nil, err
	}
	return config.Load(config.Source{File: file, Env: os.Environ(), Flags: cmd.Flags()})
}

// logger logs what the settings ask for.
func logger(cfg config.Log, notes io.Writer) *slog.Logger {
	return leveled(cfg.Format, levelOf(cfg.Level), notes)
}

// levelOf is the level of that name. The settings allow only names that slog knows.
func levelOf(name string) (level slog.Level) {
	_ = level.UnmarshalText([]byte(name))
	return level
}

func leveled(format string, level slog.Leveler, notes io.Writer) *slog.Logger {
	options := &slog.HandlerOptions{Level: level}
	if format == "json" {
		return slog.New(slog.NewJSONHandler(notes, options))
	}
	return slog.New(slog.NewTextHandler(notes, options))
}

func configCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "config",
		Short: "print every setting, its value and where that comes from",
		Long: `config prints the settings in force: the defaults, what the file of --config or
KVWITNESS_CONFIG says, what variables such as KVWITNESS_LIMITS_PAGES say, and
what flags say, each stronger than the one before. A key, a variable or a value
that is not known is an error.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, origin, err := loadConfig(cmd)
			if err != nil {
				return err
			}
			if asJSON {
				return cfg.ShowJSON(cmd.OutOrStdout(), origin)
			}
			return cfg.Show(cmd.OutOrStdout(), origin)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "one JSON object a line")
	config.RegisterAll(cmd.Flags())
	return cmd
}
