package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

func listTable(w io.Writer, chosen []mutant) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "mutant\tfile\tswitched off")
	for _, m := range chosen {
		fmt.Fprintf(t, "%s\t%s\t%s\n", m.name(), m.file, m.off)
	}
	t.Flush()
}

// report prints what became of the mutants: a table, or a JSON object each.
func report(w io.Writer, opts options, results []result) error {
	if opts.json {
		return printJSON(w, results)
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "mutant\tfile\tswitched off\tkilled by")
	for _, r := range results {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", r.Mutant, r.edit.file, r.Off, fate(r))
	}
	t.Flush()
	if opts.verbose {
		details(w, results)
	}
	count := map[outcome]int{}
	for _, r := range results {
		count[r.Outcome]++
	}
	_, err := fmt.Fprintf(w, "\n%d mutants: %d killed, %d survived, %d errors\n",
		len(results), count[killed], count[survived], count[failed])
	return err
}

func printJSON(w io.Writer, results []result) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	for _, r := range results {
		if err := enc.Encode(r); err != nil {
			return fmt.Errorf("writing the results: %w", err)
		}
	}
	return nil
}

// fate is one line, whatever the error is.
func fate(r result) string {
	switch r.Outcome {
	case killed:
		return r.KilledBy
	case failed:
		return "ERROR " + strings.Join(strings.Fields(r.Error), " ")
	}
	return string(r.Outcome)
}

// details shows the edits of those that were not killed, and what the tests
// said about the others.
func details(w io.Writer, results []result) {
	for _, r := range results {
		fmt.Fprintf(w, "\n%s (%s): %s\n", r.Mutant, r.Outcome, r.Off)
		switch r.Outcome {
		case killed:
			fmt.Fprintf(w, "%s\n%s", r.KilledBy, indent(r.Said, "    "))
		case failed:
			fmt.Fprint(w, indent(r.Error, "    "))
		}
		if r.Outcome != killed {
			fmt.Fprintf(w, "%s:\n%s%s", r.File, indent(r.edit.old, "  - "), indent(r.edit.new, "  + "))
		}
	}
}

func indent(text, with string) string {
	if text = strings.TrimRight(text, "\n"); text == "" {
		return ""
	}
	return with + strings.ReplaceAll(text, "\n", "\n"+with) + "\n"
}
