package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/kvwitness/kvwitness/engine/api"
	"github.com/kvwitness/kvwitness/engine/config"
	"github.com/kvwitness/kvwitness/engine/router"
)

func routerCommand() *cobra.Command {
	var r config.Router
	table := r.Table()
	cmd := &cobra.Command{
		Use:   "router",
		Short: "join a prefill and a decode engine for each request",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := errors.Join(load(cmd, table), r.Check()); err != nil {
				return err
			}
			return route(cmd.Context(), &r)
		},
	}
	table.Register(cmd.Flags())
	return cmd
}

func route(ctx context.Context, c *config.Router) error {
	c.Config.Log = logger(c.Log)
	r, err := router.New(c.Config)
	if err != nil {
		return err
	}
	defer r.Close()
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", net.JoinHostPort(c.Host, strconv.Itoa(c.Port)))
	if err != nil {
		return fmt.Errorf("listen for requests: %w", err)
	}
	web := api.Web(r.Handler())
	failed := make(chan error, 1)
	go func() { failed <- web.Serve(l) }()
	c.Config.Log.Info("routing", "url", "http://"+l.Addr().String())
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	r.Stop()
	stopCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.StopTimeout)
	defer cancel()
	return web.Shutdown(stopCtx)
}
