package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/spf13/cobra"

	"github.com/kvwitness/kvwitness/sidecar/finding"
	"github.com/kvwitness/kvwitness/sidecar/replay"
)

func explainCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "explain [KIND]",
		Short: "what a kind of finding means, why it matters and what to do",
		Long:  "explain prints what a kind of finding means, why it matters, what usually causes\nit and what to do. Without KIND it lists all kinds, the gravest first.",
		Args:  cobra.MaximumNArgs(1),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return kindNames(), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			kinds, err := chosenKinds(args)
			if err != nil {
				return err
			}
			out := cmd.OutOrStdout()
			switch {
			case asJSON:
				return explainJSON(out, kinds)
			case len(args) == 0:
				return listKinds(out)
			}
			return explainText(out, finding.Explain(kinds[0]), lookOf(out).Width)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "one JSON object a line")
	return cmd
}

// chosenKinds is the kind that was asked for, or all.
func chosenKinds(args []string) ([]finding.Kind, error) {
	if len(args) == 1 {
		k, known := finding.ByName(args[0])
		if !known {
			return nil, fmt.Errorf("%.40q is no kind of finding; the kinds are %s", args[0], strings.Join(kindNames(), ", "))
		}
		return []finding.Kind{k}, nil
	}
	var all []finding.Kind
	for k := range finding.NumKind {
		all = append(all, k)
	}
	return all, nil
}

func kindNames() []string {
	var names []string
	for k := range finding.NumKind {
		names = append(names, k.String())
	}
	return names
}

func listKinds(out io.Writer) error {
	for k := range finding.NumKind {
		if _, err := fmt.Fprintf(out, "%-8s  %-19s  %s\n", k.Severity(), k, finding.Explain(k).Rule); err != nil {
			return err
		}
	}
	return nil
}

func explainJSON(out io.Writer, kinds []finding.Kind) error {
	for _, k := range kinds {
		if err := json.MarshalWrite(out, finding.Explain(k), json.Deterministic(true)); err != nil {
			return fmt.Errorf("write %s: %w", k, err)
		}
		if _, err := io.WriteString(out, "\n"); err != nil {
			return err
		}
	}
	return nil
}

func explainText(out io.Writer, e finding.Explanation, width int) error {
	var b strings.Builder
	paragraph := func(head string, texts ...string) {
		if len(texts) == 0 {
			return
		}
		b.WriteString("\n" + head + "\n")
		for _, text := range texts {
			mark := "  "
			if len(texts) > 1 {
				mark = "  - "
			}
			for _, line := range replay.Wrap(text, width-len(mark)) {
				b.WriteString(mark + line + "\n")
				mark = strings.Repeat(" ", len(mark))
			}
		}
	}
	fmt.Fprintf(&b, "%s  %s\n", e.Kind, e.Severity)
	paragraph("The rule that was broken", e.Rule+".")
	paragraph("What it means", e.Meaning)
	paragraph("Why it matters", e.Matters)
	paragraph("What to do", e.Todo...)
	paragraph("What usually causes it", e.Causes...)
	paragraph("Seen in public", reports(e)...)
	_, err := io.WriteString(out, b.String())
	return err
}

func reports(e finding.Explanation) (lines []string) {
	for _, r := range e.Reports {
		name := r.Project
		if r.Number != 0 {
			name = fmt.Sprintf("%s %d", r.Project, r.Number)
		}
		lines = append(lines, name+": "+r.What)
	}
	return lines
}
