// Command sim holds the ledger, and the oracle against it, to simulated
// traffic: valid traffic, single faults, and a long stream of valid facts.
// It prints its seed and its tables, writes each shrunk objection to a file,
// and ends with status 1 if there was any.
package main

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/sidecar/finding"
	"github.com/kvwitness/kvwitness/sidecar/ledger"
	"github.com/kvwitness/kvwitness/test/oracle"
	"github.com/kvwitness/kvwitness/test/sim"
)

func main() {
	seed := flag.Uint64("seed", uint64(time.Now().UnixNano()), "seed of the first trace; later traces count up from it")
	traces := flag.Int("traces", 10_000, "random traces of each mix")
	faults := flag.Int("faults", 1_000, "faults of each sort")
	facts := flag.Int("facts", 10_000_000, "valid facts in one stream of each of -stream")
	stream := flag.String("stream", "mixed", "mixes of the long stream, separated by commas")
	mixes := flag.String("mix", "", "only these mixes, separated by commas")
	kinds := flag.String("fault", "", "only faults whose name begins with one of these")
	dir := flag.String("dir", "", "folder for shrunk traces; none keeps none")
	limit := flag.Int("shrink", 1, "how many objections of one class are shrunk")
	alone := flag.Bool("alone", false, "judge by the ledger alone, without the oracle")
	without := flag.String("without", "", "features (fields of Mix) to leave out of every mix, separated by commas")
	workers := flag.Int("workers", runtime.NumCPU(), "traces that are made and judged side by side")
	flag.Parse()
	fmt.Printf("seed %d\n", *seed)

	var off []string
	if *without != "" {
		off = strings.Split(*without, ",")
	}
	c := &sim.Campaign{Without: off, Ledger: sim.Whole(whole), Seed: *seed, Dir: *dir, Out: os.Stdout, Limit: *limit, Workers: *workers}
	if !*alone {
		c.Oracle = naive
	}
	for _, m := range sim.Mixes() {
		if *traces > 0 && asked(*mixes, m.Name) {
			c.Valid(m, *traces)
			fmt.Printf("%-16s %d traces, %d objections so far\n", m.Name, *traces, c.Objections())
		}
	}
	for _, f := range sim.Faults() {
		if *faults > 0 && asked(*kinds, f.Name) {
			n := c.Fault(&f, *faults)
			fmt.Printf("%-34s %6d put in, %d objections so far\n", f.Name, n, c.Objections())
		}
	}
	for name := range strings.SplitSeq(*stream, ",") {
		if *facts == 0 {
			break
		}
		m, known := sim.MixByName(name)
		if !known {
			fmt.Fprintf(os.Stderr, "-stream names %q, which is no mix\n", name)
			os.Exit(2)
		}
		c.Stream(m, *facts, ledger.New(ledger.Config{}))
	}
	fmt.Println("hard cases:")
	c.Hard.Print(os.Stdout)
	c.PrintObjections()
	if c.Objections() > 0 {
		os.Exit(1)
	}
}

// asked reports whether name is among what was asked for; nothing is all.
func asked(list, name string) bool {
	for one := range strings.SplitSeq(list, ",") {
		if strings.HasPrefix(name, one) {
			return true
		}
	}
	return false
}

func whole() sim.Stepper { return ledger.New(ledger.Config{HoldVerdicts: true}) }

// naive is the oracle over a whole trace.
func naive(facts []*lifecycle.Fact) ([]finding.Finding, []finding.Verdict) {
	return oracle.Judge(facts, oracle.Config{})
}
