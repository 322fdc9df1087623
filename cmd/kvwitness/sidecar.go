package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/kvwitness/kvwitness/cmd/internal/build"
	"github.com/kvwitness/kvwitness/sidecar/config"
	"github.com/kvwitness/kvwitness/sidecar/daemon"
)

func sidecarCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "sidecar",
		Short: "follow running engines and say what they break",
		Long: `sidecar follows the lifecycle streams of running engines on this node, and writes
what was broken, by whom and whose data was exposed, as JSON lines: findings and
verdicts, in the form of replay --json --verdicts.

  kvwitness sidecar --engines prefill-0=http://127.0.0.1:30001,decode-0=http://127.0.0.1:30002

It serves /metrics, /healthz (it sees something), /livez (it runs) and
/api/v1/findings, /verdicts and /state at --listen. SIGHUP reads the configuration
anew: engines, shadow and log.level take effect at once, and a configuration that
is wrong, or changes more than that, changes nothing. SIGTERM ends it.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, origin, err := loadConfig(cmd)
			if err != nil {
				return err
			}
			if len(cfg.Sidecar.Engines) == 0 && len(cfg.Sidecar.Watch) == 0 && cfg.Sidecar.ProbeSocket == "" {
				return errors.New("there is nothing to see: name engines with --engines, processes with --watch, or both in the configuration")
			}
			return watch(cmd, cfg, origin)
		},
	}
	config.RegisterAll(cmd.Flags())
	return cmd
}

func watch(cmd *cobra.Command, cfg config.Config, origin config.Origin) error {
	boundSidecar()
	ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var level slog.LevelVar
	setLevel := func(name string) { level.Set(levelOf(name)) }
	setLevel(cfg.Log.Level)
	log := leveled(cfg.Log.Format, &level, cmd.ErrOrStderr())
	d, err := daemon.New(ctx, daemon.Options{
		Config: cfg, Origin: origin, Level: setLevel, Out: cmd.OutOrStdout(), Log: log, Version: build.String(),
		Load: func() (config.Config, config.Origin, error) { return loadConfig(cmd) },
	})
	if err != nil {
		return err
	}
	// Before it says that it watches: who reads that may hang up at once.
	hups := make(chan os.Signal, 1)
	signal.Notify(hups, syscall.SIGHUP)
	defer signal.Stop(hups)
	go reloadOn(ctx, hups, d)
	return d.Run(ctx)
}

// reloadOn reads the configuration at each SIGHUP; Reload itself says how it went.
func reloadOn(ctx context.Context, hups <-chan os.Signal, d *daemon.Daemon) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-hups:
			_ = d.Reload(ctx)
		}
	}
}

// boundSidecar has the collector run rather than let memory grow, unless the
// environment decides.
func boundSidecar() {
	const limit = 256 << 20
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(limit)
	}
}
