package demo

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// print writes the rows, as a table or as JSON.
func (d *demo) print(rows []*row) error {
	if d.JSON {
		out := json.NewEncoder(d.Out)
		for _, r := range rows {
			if err := out.Encode(r); err != nil {
				return fmt.Errorf("print a row: %w", err)
			}
		}
		return nil
	}
	table := tabwriter.NewWriter(d.Out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "SCENARIO\tHTTP\tSECRET LEAKED\tFINDINGS\tVERDICT\tEXPOSED\tFOUND AFTER")
	for _, r := range rows {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", r.Scenario, r.statuses(), r.leak(), r.kinds(), r.Verdict, r.exposed(), r.after())
	}
	if err := table.Flush(); err != nil {
		return fmt.Errorf("print the table: %w", err)
	}
	_, err := fmt.Fprint(d.Out, d.words(rows))
	return err
}

func (r *row) statuses() string {
	var all []string
	for _, status := range slices.Sorted(maps.Keys(r.Status)) {
		text := fmt.Sprint(status)
		if r.Requests > 1 {
			text = fmt.Sprintf("%d × %d", r.Status[status], status)
		}
		all = append(all, text)
	}
	return strings.Join(all, ", ")
}

func (r *row) leak() string {
	if r.Leaked {
		return "YES"
	}
	return "no"
}

func (r *row) kinds() string {
	if len(r.Findings) == 0 {
		return "none"
	}
	return strings.Join(slices.Sorted(maps.Keys(r.Findings)), " ")
}

// exposed says whose data was, by the sidecar's words.
func (r *row) exposed() string {
	var all []string
	for _, p := range r.Exposed {
		all = append(all, fmt.Sprintf("req %s of %.8s…", p.Req, p.Domain))
	}
	if all == nil {
		return "-"
	}
	return strings.Join(all, ", ")
}

// after is the longest time from a fact of B's request to its first finding of a kind.
func (r *row) after() string {
	if len(r.Delay) == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f ms", slices.Max(slices.Collect(maps.Values(r.Delay))))
}

// words say what the table does not.
func (d *demo) words(rows []*row) string {
	var b strings.Builder
	first, last := rows[0], rows[len(rows)-1]
	fmt.Fprintf(&b, "\nAn ordinary dashboard of the drill: HTTP %s, %.0f ms, %d tokens answered, no error.\n",
		first.statuses(), slices.Max(first.Latency), first.Tokens)
	if first.First != nil {
		when := "before"
		ahead := time.Duration(*first.First * float64(time.Millisecond))
		if ahead < 0 {
			when, ahead = "after", -ahead
		}
		fmt.Fprintf(&b, "The first finding of B's request came %.1f ms %s the first token of its answer reached the client.\n", ahead.Seconds()*1e3, when)
	}
	if first.Unhurried {
		fmt.Fprintf(&b, "This machine is too busy for facts to come in time: the sidecar was told to expect them %s late.\n", unhurried)
	}
	if len(rows) == theIncident {
		return b.String()
	}
	if d.outside {
		fmt.Fprintf(&b, "\nNormal traffic is seen from outside the engines to be clean (%s; what is unwitnessed had no handoff,\n"+
			"was not completed, or came before the path was proven). In the last row both engines claim the same and nothing they\n"+
			"say is wrong in itself: the bytes that arrived at decode give them away (%s).\n", rows[theIncident].counts(), last.kinds())
		return b.String()
	}
	why := "it takes root"
	if d.blind != "" {
		why = d.blind
	}
	fmt.Fprintf(&b, "\nUnwitnessed: nothing outside the engine was watched (%s; sudo kvwitness demo does it).\n", why)
	fmt.Fprintf(&b, "That is no formality: in the last row both engines claim the same, nothing they say is wrong in itself, and the\n"+
		"secret leaks all the same (verdict %s, no finding). Only who watches the bytes that arrive at decode can tell a lie\n"+
		"from the truth; that observation would turn such a handoff into clean or violated.\n", last.Verdict)
	return b.String()
}

// counts are the verdicts of all requests.
func (r *row) counts() string {
	var all []string
	for _, v := range slices.Sorted(maps.Keys(r.Verdicts)) {
		all = append(all, fmt.Sprintf("%d %s", r.Verdicts[v], v))
	}
	return strings.Join(all, ", ")
}

// printKept says where the engines are that were left running.
func (d *demo) printKept(w *set) {
	fmt.Fprintf(d.Notes, "\nThe drilled engines are still running, until you press Ctrl-C:\n"+
		"  router   %s/v1/completions\n  prefill  %s/server_info\n  decode   %s/server_info\n"+
		"  sidecar  %s/metrics, /api/v1/findings, /api/v1/state\n"+
		"  page     %s/ (the incident, whose data, and the pages of each pool as they are now)\n", w.router, w.prefill, w.decode, w.sidecar, w.sidecar)
	for _, t := range w.tenants {
		fmt.Fprintf(d.Notes, "  key of tenant %s: %s\n", t.name, t.key)
	}
}
