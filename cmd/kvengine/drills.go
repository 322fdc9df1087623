package main

import (
	"fmt"
	"io"
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

// legend explains the table.
const legend = `
A drill switches off exactly the protections that would stop it; each of them
alone does, if it is kept on with --drill-keep: the status is what test/e2e sees
then, through router and sockets, of the request that the fault would harm: an
error, or 200 with the right answer. With those marked - it is on all the same,
and the fault happens.

`

// cell is what a protection alone does about a drill.
func cell(d scheduler.Drill, p scheduler.Protection) string {
	status, stops := drill.Stops(d, p)
	switch {
	case !stops:
		return "-"
	case status == drill.Refuses:
		return "stops: does not start"
	}
	return fmt.Sprintf("stops: %d", status)
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
			fmt.Fprintf(table, "\t%s", cell(d.Drill, p))
		}
		fmt.Fprintln(table)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	fmt.Fprint(w, legend)
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
