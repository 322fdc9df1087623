// Command delay measures, for each drill, the time from the arrival of the facts
// that show it at the sidecar to the findings, and whether the first finding came
// before the first token of the affected answer: engines of this process, the
// sidecar as it is shipped. With -apart the sidecar has the last core for itself, and
// the engines, which compute here as a GPU does elsewhere, have the others.
//
//	go run ./test/bench/delay -runs 200 -apart
package main

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/kvwitness/kvwitness/test/live"
)

// forget is how long what a sidecar expects of engines that it has just met takes to
// be forgotten.
const forget = 3 * time.Second

func main() {
	runs := flag.Int("runs", 200, "how often each drill is played")
	root := flag.String("root", ".", "where go.mod is")
	apart := flag.Bool("apart", false, "give the sidecar a core of its own")
	flag.Parse()
	err := error(nil)
	if *apart {
		err = keepOff()
	}
	if err == nil {
		err = run(*runs, *root, *apart)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "delay:", err)
		os.Exit(1)
	}
}

func run(runs int, root string, apart bool) error {
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
	fmt.Fprintln(table, "DRILL\tRUNS\tFINDINGS\tBLIND\tLATE\tP50 MS\tP99 MS\tMAX MS\tBEFORE THE FIRST TOKEN")
	var all []float64
	for i := range live.Exercises {
		e := &live.Exercises[i]
		m := measured{kinds: map[string][]float64{}, apart: apart}
		if err := m.play(e, path, dir, runs); err != nil {
			return fmt.Errorf("%s after %d runs: %w", e.Drill, m.runs, err)
		}
		all = append(all, m.delays...)
		m.print(table, e.Drill.String())
		for _, kind := range slices.Sorted(maps.Keys(m.kinds)) {
			(&measured{delays: m.kinds[kind]}).print(table, "  "+kind)
		}
	}
	(&measured{delays: all}).print(table, "all")
	return table.Flush()
}

// measured is what was measured of one drill.
type measured struct {
	apart         bool
	runs, blind   int
	late          float64   // facts that came too late to be put in order
	delays        []float64 // ms, of the first finding of each kind in each run
	kinds         map[string][]float64
	before, asked int // runs with an answer, and those in which a finding came before it
}

// play plays a drill so often; one whose findings are said once has a sidecar for each.
func (m *measured) play(e *live.Exercise, path, dir string, runs int) error {
	c, err := e.Start(context.Background(), dir, true)
	if err != nil {
		return err
	}
	defer c.Close()
	if !e.Once {
		return m.watch(e, c, path, 0, runs)
	}
	for round := range runs {
		if err := m.watch(e, c, path, round, round+1); err != nil {
			return err
		}
	}
	return nil
}

// watch plays the rounds from the first to before the end to one sidecar.
func (m *measured) watch(e *live.Exercise, c *live.Cluster, path string, first, end int) error {
	s, err := live.StartSidecar(path, c.Engines())
	if err != nil {
		return err
	}
	defer s.Kill()
	if m.apart {
		if err := putApart(s.Process.Process.Pid); err != nil {
			return err
		}
	}
	time.Sleep(forget)
	last := uint64(0)
	for round := first; round < end; round++ {
		answer, err := e.Play(c, round)
		if err != nil {
			return err
		}
		if last, err = m.take(s, last, answer); err != nil {
			return err
		}
		m.runs++
	}
	late, err := s.Metric(`kvwitness_ledger_facts_total{outcome="late"}`)
	m.late += late
	return err
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
		case f.Said.Kind == "capacity_inversion" || seen[f.Said.Kind] || f.Delay == 0:
			// what the engines were configured with, or of a later step of the same request
		default:
			seen[f.Said.Kind] = true
			m.delays = append(m.delays, f.Delay*1e3)
			m.kinds[f.Said.Kind] = append(m.kinds[f.Said.Kind], f.Delay*1e3)
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
		fmt.Fprintf(table, "%s\t%d\t0\t%d\t%.0f\t-\t-\t-\t-\n", name, m.runs, m.blind, m.late)
		return
	}
	slices.Sort(m.delays)
	before := "-"
	if m.asked > 0 {
		before = fmt.Sprintf("%d of %d", m.before, m.asked)
	}
	fmt.Fprintf(table, "%s\t%d\t%d\t%d\t%.0f\t%.1f\t%.1f\t%.1f\t%s\n", name, m.runs, len(m.delays), m.blind, m.late,
		m.at(0.5), m.at(0.99), m.delays[len(m.delays)-1], before)
}

func (m *measured) at(q float64) float64 { return m.delays[int(q*float64(len(m.delays)-1))] }
