// Command delay measures, for each drill, the time from the arrival of the facts
// that show it at the sidecar to the findings, and whether the first finding came
// before the first token of the affected answer: engines of this process, the
// sidecar as it is shipped.
//
//	go run ./test/bench/delay -runs 200
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/kvwitness/kvwitness/test/live"
)

func main() {
	runs := flag.Int("runs", 200, "how often each drill is played")
	root := flag.String("root", ".", "where go.mod is")
	flag.Parse()
	if err := run(*runs, *root); err != nil {
		fmt.Fprintln(os.Stderr, "delay:", err)
		os.Exit(1)
	}
}

func run(runs int, root string) error {
	dir, err := live.ShortDir()
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	path, err := live.Build(context.Background(), root, dir, "kvwitness")
	if err != nil {
		return err
	}
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "DRILL\tRUNS\tFINDINGS\tBLIND\tP50 MS\tP99 MS\tMAX MS\tBEFORE THE FIRST TOKEN")
	var all []float64
	for i := range live.Exercises {
		e := &live.Exercises[i]
		m := measured{}
		if err := m.play(e, path, dir, runs); err != nil {
			return fmt.Errorf("%s after %d runs: %w", e.Drill, m.runs, err)
		}
		all = append(all, m.delays...)
		m.print(table, e.Drill.String())
	}
	(&measured{delays: all}).print(table, "all")
	return table.Flush()
}

// measured is what was measured of one drill.
type measured struct {
	runs, blind   int
	delays        []float64 // ms, of the first finding of each kind in each run
	before, asked int       // runs with an answer, and those in which a finding came before it
}

func (m *measured) play(e *live.Exercise, path, dir string, runs int) error {
	c, err := e.Start(context.Background(), dir, true)
	if err != nil {
		return err
	}
	defer c.Close()
	s, err := live.StartSidecar(path, c.Engines())
	if err != nil {
		return err
	}
	defer s.Kill()
	time.Sleep(5 * time.Second) // what was expected of engines that were just met is forgotten
	last := uint64(0)
	for round := range runs {
		answer, err := e.Play(c, round)
		if err != nil {
			return err
		}
		if last, err = m.take(s, last, answer); err != nil {
			return err
		}
		m.runs++
	}
	return nil
}

// take waits until a run's findings have come, and adds them.
func (m *measured) take(s *live.Sidecar, since uint64, answer live.Answer) (last uint64, err error) {
	time.Sleep(60 * time.Millisecond)
	all, err := s.Findings(since)
	if err != nil {
		return since, err
	}
	seen := map[string]bool{}
	first := true
	for _, f := range all {
		since = f.ID
		switch {
		case f.Said.Kind == "blind":
			m.blind++
		case f.Said.Kind == "capacity_inversion" || f.Said.Kind == "layout_mismatch" || seen[f.Said.Kind] || f.Delay == 0:
			// said once for two instances, or of a later step of the same request
		default:
			seen[f.Said.Kind] = true
			m.delays = append(m.delays, f.Delay*1e3)
			if first && !answer.First.IsZero() {
				m.asked++
				if f.At.Before(answer.First) {
					m.before++
				}
			}
			first = false
		}
	}
	return since, nil
}

func (m *measured) print(table *tabwriter.Writer, name string) {
	if len(m.delays) == 0 {
		fmt.Fprintf(table, "%s\t%d\t0\t%d\t-\t-\t-\t-\n", name, m.runs, m.blind)
		return
	}
	slices.Sort(m.delays)
	before := "-"
	if m.asked > 0 {
		before = fmt.Sprintf("%d of %d", m.before, m.asked)
	}
	fmt.Fprintf(table, "%s\t%d\t%d\t%d\t%.1f\t%.1f\t%.1f\t%s\n", name, m.runs, len(m.delays), m.blind,
		m.at(0.5), m.at(0.99), m.delays[len(m.delays)-1], before)
}

func (m *measured) at(q float64) float64 { return m.delays[int(q*float64(len(m.delays)-1))] }
