package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/kvwitness/kvwitness/engine/drill"
	"github.com/kvwitness/kvwitness/engine/scheduler"
)

func drillsCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "drills",
		Short: "list the drills, and which protection stops which",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return printDrills(cmd.OutOrStdout()) },
	}
}

// printDrills prints a row for each drill and a column for each protection.
func printDrills(w io.Writer) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprint(table, "DRILL")
	for p := range scheduler.NumProtections {
		fmt.Fprintf(table, "\t%s", p)
	}
	fmt.Fprintln(table)
	for _, d := range scheduler.Drills() {
		fmt.Fprint(table, d.Name)
		for p := range scheduler.NumProtections {
			stops := "-"
			if slices.Contains(d.Off, p) {
				stops = "stops"
			}
			fmt.Fprintf(table, "\t%s", stops)
		}
		fmt.Fprintln(table)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	fmt.Fprint(w, "\nA drill switches off exactly the protections that would stop it; each of them\nalone does, if it is kept on with --drill-keep.\n\n")
	for _, d := range scheduler.Drills() {
		var roles []string
		for _, r := range d.Roles {
			roles = append(roles, r.String())
		}
		header := ""
		if d.PerRequest {
			header = "; also by header"
		}
		e := drill.Expected(d.Drill)
		found := strings.Join(e.Findings, ", ")
		if found == "" {
			found = "nothing"
		}
		fmt.Fprintf(w, "%s (%s%s)\n  fault: %s\n  found in what it says of itself: %s\n  why: %s\n", d.Name, strings.Join(roles, ", "), header, d.Fault, found, e.Why)
	}
	return nil
}
