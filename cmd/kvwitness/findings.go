package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"github.com/kvwitness/kvwitness/sidecar/evidence"
	"github.com/kvwitness/kvwitness/sidecar/finding"
)

func findingsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "findings",
		Short: "list, show, export and verify the evidence of incidents",
		Long: `findings reads the evidence that a sidecar keeps of each incident: from the running
sidecar (--url, or where the configuration says that it listens), or from its folder
when it does not run (--store).

Exit status: 0 fine (list: nothing is there), 3 incidents are there, or the evidence
does not verify, 2 it cannot be read.`,
	}
	cmd.PersistentFlags().String("store", "", "folder of the evidence of a sidecar that does not run")
	cmd.PersistentFlags().String("url", "", "address of a running sidecar")
	cmd.PersistentFlags().String("token-file", "", "file with the sidecar's token")
	cmd.PersistentFlags().String("ca-file", "", "authorities that may vouch for a sidecar at https; empty: the system's")
	cmd.PersistentFlags().String("cert-file", "", "certificate to show to a sidecar that asks for one, with --key-file and --ca-file")
	cmd.PersistentFlags().String("key-file", "", "the key of that certificate")
	cmd.AddCommand(listCommand(), showCommand(), exportCommand(), verifyCommand(), closeCommand())
	return cmd
}

func listCommand() *cobra.Command {
	var asJSON, open bool
	var kind string
	cmd := &cobra.Command{
		Use: "list", Short: "all incidents, the newest first", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if _, known := finding.ByName(kind); kind != "" && !known {
				return fmt.Errorf("%.40q is no kind of finding; the kinds are %s", kind, strings.Join(kindNames(), ", "))
			}
			all, err := fromEvidence(cmd, func(e evidenceSource) ([]evidence.Incident, error) { return e.list() })
			if err != nil {
				return err
			}
			all = slices.DeleteFunc(all, func(i evidence.Incident) bool {
				return open && !i.Open || kind != "" && !slices.ContainsFunc(i.Kinds, func(k finding.Kind) bool { return k.String() == kind })
			})
			if err := printList(cmd.OutOrStdout(), all, asJSON); err != nil {
				return err
			}
			if len(all) > 0 {
				return errFound
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "one JSON object a line")
	cmd.Flags().BoolVar(&open, "open", false, "only disclosures that nobody has closed")
	cmd.Flags().StringVar(&kind, "kind", "", "only those with a finding of this kind")
	return cmd
}

func printList(out io.Writer, all []evidence.Incident, asJSON bool) error {
	if asJSON {
		for _, i := range all {
			if err := writeJSON(out, &i); err != nil {
				return err
			}
		}
		return nil
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "ID\tWHEN\tSEVERITY\tKINDS\tABOUT\tON\tEXPOSED\tSTANDING")
	for _, i := range all {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%d\t%s\n", i.ID, i.First.UTC().Format("2006-01-02T15:04:05Z"), i.Severity, kindsOf(&i),
			plainText(i.Name), plainText(i.Inst), i.Exposed, standing(&i))
	}
	return table.Flush()
}

func kindsOf(i *evidence.Incident) string {
	var names []string
	for _, k := range i.Kinds {
		names = append(names, k.String())
	}
	return strings.Join(names, ",")
}

func standing(i *evidence.Incident) string {
	switch {
	case i.Open:
		return "open"
	case !i.Wakes:
		return "wakes nobody"
	}
	return "-"
}

func writeJSON(out io.Writer, v any) error {
	if err := json.MarshalWrite(out, v, json.Deterministic(true), jsontext.AllowInvalidUTF8(true)); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	_, err := io.WriteString(out, "\n")
	return err
}

// told is an incident with its entries.
type told struct {
	Incident evidence.Incident `json:"incident"`
	Entries  []toldEntry       `json:"entries"`
}

type toldEntry struct {
	evidence.Link
	Content jsontext.Value `json:"body"`
}

func showCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "show ID", Short: "one incident: what was claimed and what was seen, whose data, what to do", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			one, err := fromEvidence(cmd, func(e evidenceSource) (*told, error) { return e.one(args[0]) })
			if err != nil {
				return err
			}
			if asJSON {
				return writeJSON(cmd.OutOrStdout(), one)
			}
			return printIncident(cmd.OutOrStdout(), one)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "all of it, as one JSON object")
	return cmd
}

func exportCommand() *cobra.Command {
	var path string
	cmd := &cobra.Command{
		Use: "export ID", Short: "one incident as one file to hand on, chained to the head in its alert", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			out := cmd.OutOrStdout()
			if path != "" {
				file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
				if err != nil {
					return fmt.Errorf("export: %w", err)
				}
				defer func() { err = errors.Join(err, file.Close()) }()
				out = file
			}
			_, err = fromEvidence(cmd, func(e evidenceSource) (struct{}, error) { return struct{}{}, e.export(args[0], out) })
			return err
		},
	}
	cmd.Flags().StringVar(&path, "out", "", "file to write, which must not be there yet; empty: standard output")
	return cmd
}

func verifyCommand() *cobra.Command {
	var head string
	var asJSON bool
	cmd := &cobra.Command{
		Use: "verify [FILE]", Short: "whether an exported file, or all evidence of a sidecar, is what it was", Args: cobra.MaximumNArgs(1),
		Long: `verify reads an exported file (- for standard input) and reports whether it is whole. With
--head, the evidence_head of the alert, it also proves that this is the evidence of
that alert; without, that the file agrees with itself. Without FILE it verifies all
evidence of a sidecar.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			var err error
			says := "all evidence verifies"
			if len(args) == 1 {
				says, err = verifyFile(cmd, args[0], head)
			} else {
				_, err = fromEvidence(cmd, func(e evidenceSource) (struct{}, error) { return struct{}{}, e.verify() })
			}
			broken := errors.Is(err, evidence.ErrBroken)
			if err != nil && !broken {
				return err
			}
			if broken {
				says = err.Error()
			}
			if asJSON {
				err = writeJSON(cmd.OutOrStdout(), map[string]any{"verifies": !broken, "says": says})
			} else {
				_, err = fmt.Fprintln(cmd.OutOrStdout(), says)
			}
			if err == nil && broken {
				return errFound
			}
			return err
		},
	}
	cmd.Flags().StringVar(&head, "head", "", "the evidence_head that the alert names")
	cmd.Flags().BoolVar(&asJSON, "json", false, "as a JSON object")
	return cmd
}

func verifyFile(cmd *cobra.Command, path, head string) (string, error) {
	in := cmd.InOrStdin()
	if path != "-" {
		file, err := os.Open(path)
		if err != nil {
			return "", fmt.Errorf("verify: %w", err)
		}
		defer file.Close()
		in = file
	}
	v, err := evidence.VerifyFile(in, head)
	if err != nil {
		return "", err
	}
	says := fmt.Sprintf("incident %s: %d entries of it and %d of others are what they were", v.Incident, len(v.Own), v.Links-len(v.Own))
	if v.Gaps > 0 {
		says += fmt.Sprintf("; %d stretches of the chain between them are no longer known", v.Gaps)
	}
	if head == "" {
		return says + ". That it is the evidence of an alert shows --head, with the evidence_head of the alert; here it is " + v.Head, nil
	}
	return says + ", and the alert named them", nil
}

func closeCommand() *cobra.Command {
	var by, why string
	cmd := &cobra.Command{
		Use: "close ID", Short: "say that a disclosure has been seen to: its alert ends, and the evidence says who did it and why", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			_, err := fromEvidence(cmd, func(e evidenceSource) (struct{}, error) { return struct{}{}, e.shut(args[0], by, why) })
			return err
		},
	}
	cmd.Flags().StringVar(&by, "by", "", "who closes it")
	cmd.Flags().StringVar(&why, "why", "", "what was done")
	_ = cmd.MarkFlagRequired("by")  // fails only for a flag that is not there
	_ = cmd.MarkFlagRequired("why") // as before
	return cmd
}
