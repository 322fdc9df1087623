package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/kvwitness/kvwitness/sidecar/metrics"
)

//go:generate go run . metrics --output ../../docs/METRICS.md

func metricsCommand() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "metrics",
		Short: "the reference of what the sidecar tells Prometheus, as Markdown",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if output == "" {
				return metrics.WriteReference(cmd.OutOrStdout())
			}
			file, err := os.Create(output)
			if err != nil {
				return fmt.Errorf("write the reference: %w", err)
			}
			if err := metrics.WriteReference(file); err != nil {
				_ = file.Close() // the first error counts
				return fmt.Errorf("write the reference: %w", err)
			}
			return file.Close()
		},
	}
	cmd.Flags().StringVar(&output, "output", "", "file to write to; empty: standard output")
	return cmd
}
