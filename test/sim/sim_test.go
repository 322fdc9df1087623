package sim_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"strconv"
	"testing"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/sidecar/finding"
	"github.com/kvwitness/kvwitness/sidecar/ledger"
	"github.com/kvwitness/kvwitness/test/oracle"
	"github.com/kvwitness/kvwitness/test/sim"
)

// Each test runs with seeds that never change, or with that of -seed or
// KVWITNESS_SIM_SEED; fresh ones are for make sim. A failure prints its seed.
var (
	seedFlag = flag.Uint64("seed", 0, "the only seed to run with")
	dirFlag  = flag.String("dir", "", "folder for shrunk traces; default a temporary one that is kept")
)

func seeds(t *testing.T) []uint64 {
	t.Helper()
	if *seedFlag != 0 {
		return []uint64{*seedFlag}
	}
	if text := os.Getenv("KVWITNESS_SIM_SEED"); text != "" {
		seed, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatalf("KVWITNESS_SIM_SEED is %q, it must be a number", text)
		}
		return []uint64{seed}
	}
	return []uint64{1}
}

func campaign(t *testing.T, seed uint64) *sim.Campaign {
	t.Helper()
	t.Logf("seed %d", seed)
	dir := *dirFlag
	if dir == "" {
		var err error
		if dir, err = os.MkdirTemp("", "kvwitness-sim-"); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if !t.Failed() {
				os.RemoveAll(dir)
			}
		})
	}
	return &sim.Campaign{Ledger: sim.Whole(wholeLedger), Seed: seed, Dir: dir, Out: t.Output(), Limit: 1}
}

func wholeLedger() sim.Stepper { return ledger.New(ledger.Config{HoldVerdicts: true}) }

// Promise: valid traffic of every mix gives no finding and the verdicts that
// it deserves.
func TestValidTrafficIsJudgedAsItDeserves(t *testing.T) {
	for _, seed := range seeds(t) {
		c := campaign(t, seed)
		for _, mix := range sim.Mixes() {
			c.Valid(mix, validTraces)
		}
		if n := c.Objections(); n > 0 {
			t.Errorf("seed %d: %d objections", seed, n)
			c.PrintObjections()
		}
		missing(t, c.Hard)
	}
}

// missing fails for hard cases that no trace exercised. The fourteenth is
// about findings, which valid traffic does not have.
func missing(t *testing.T, h sim.Hard) {
	t.Helper()
	for number, n := range h.ByNumber() {
		if number > 0 && number < 14 && n == 0 {
			t.Errorf("hard case %d was never exercised", number)
		}
	}
}

// Promise: a fault of every sort, put anywhere into valid traffic, is found
// with its request and its pages, and nothing is found that it does not
// cause.
func TestEveryFaultIsFound(t *testing.T) {
	for _, seed := range seeds(t) {
		c := campaign(t, seed)
		for _, f := range sim.Faults() {
			if n := c.Fault(&f, faultsOfASort); n < faultsOfASort {
				t.Errorf("seed %d: %s could be put in %d times only", seed, f.Name, n)
			}
		}
		if n := c.Objections(); n > 0 {
			t.Errorf("seed %d: %d objections", seed, n)
			c.PrintObjections()
		}
	}
}

// Promise: two judges, written without sight of each other, say the same of
// traffic of every mix and of faults of every sort.
func TestLedgerAndOracleAgree(t *testing.T) {
	for n := range uint64(agreeSeeds) {
		seed := 1_000*n + 1
		c := campaign(t, seed)
		c.Workers = 2
		c.Oracle = func(facts []*lifecycle.Fact) ([]finding.Finding, []finding.Verdict) {
			return oracle.Judge(facts, oracle.Config{})
		}
		for _, mix := range sim.Mixes() {
			c.Valid(mix, agreeTraces)
		}
		for _, f := range sim.Faults() {
			c.Fault(&f, agreeFaults)
		}
		if n := c.Objections(); n > 0 {
			t.Errorf("seed %d: %d objections", seed, n)
			c.PrintObjections()
		}
	}
}

// Promise: every kind of finding has a fault.
func TestEveryKindHasAFault(t *testing.T) {
	has := map[finding.Kind]bool{}
	for _, f := range sim.Faults() {
		has[f.Kind] = true
	}
	for k := range finding.NumKind {
		if !has[k] {
			t.Errorf("no fault breaks %s", k)
		}
	}
}

// Promise: a long stream of valid facts gives nothing, though it is never
// held in memory.
func TestALongStreamGivesNothing(t *testing.T) {
	for _, seed := range seeds(t) {
		t.Logf("seed %d", seed)
		mix, _ := sim.MixByName("mixed")
		if o := sim.Stream(seed, mix, streamedFacts, ledger.New(ledger.Config{}), t.Output()); o != nil {
			t.Errorf("seed %d: %v", seed, o)
		}
	}
}

// Promise: a seed, a mix and a fault name a trace, byte for byte.
func TestTheSameSeedGivesTheSameTrace(t *testing.T) {
	text := func(facts []*lifecycle.Fact) []byte {
		var b []byte
		for _, f := range facts {
			b = append(f.AppendJSON(b), '\n')
		}
		return b
	}
	for _, seed := range seeds(t) {
		for _, mix := range sim.Mixes() {
			a, b := sim.New(seed, mix).Run(10), sim.New(seed, mix).Run(10)
			if len(a.Facts) < 50 || !bytes.Equal(text(a.Facts), text(b.Facts)) {
				t.Errorf("seed %d, %s: two traces of %d and %d facts differ, or are too short", seed, mix.Name, len(a.Facts), len(b.Facts))
			}
		}
		for _, f := range sim.Faults() {
			a, ok := sim.Strikes(seed, &f)
			b, again := sim.Strikes(seed, &f)
			if ok != again || !bytes.Equal(text(a.Facts), text(b.Facts)) {
				t.Errorf("seed %d, %s: two traces differ", seed, f.Name)
			}
		}
	}
}

// Promise: what the simulator says can be written to a file and read again.
func TestTracesAreValidFacts(t *testing.T) {
	for _, seed := range seeds(t) {
		for _, mix := range sim.Mixes() {
			dec := lifecycle.NewJSONDecoder()
			for _, f := range sim.New(seed, mix).Run(10).Facts {
				line := f.AppendJSON(nil)
				back, err := dec.Decode(line)
				if err != nil {
					t.Fatalf("seed %d, %s: %v: %s", seed, mix.Name, err, line)
				}
				if again := back.AppendJSON(nil); !bytes.Equal(line, again) {
					t.Fatalf("seed %d, %s: written %s, read %s", seed, mix.Name, line, again)
				}
			}
		}
	}
}

// silent is a judge that sees nothing; noisy one that cries at every trace.
func silent([]*lifecycle.Fact) ([]finding.Finding, []finding.Verdict) { return nil, nil }

func noisy([]*lifecycle.Fact) ([]finding.Finding, []finding.Verdict) {
	return []finding.Finding{{Kind: finding.DoubleHold, Inst: "decode-0"}}, nil
}

// Promise: a judge that is wrong is objected to, whichever way it is wrong.
func TestAWrongJudgeIsObjectedTo(t *testing.T) {
	mix, _ := sim.MixByName("disagg-observed")
	stale, _ := sim.FaultByName("stale_read/attention")
	for _, c := range []struct {
		name  string
		judge sim.Judge
		run   func(*sim.Campaign)
	}{
		{"silent about valid requests", silent, func(c *sim.Campaign) { c.Valid(mix, 3) }},
		{"noisy about valid requests", noisy, func(c *sim.Campaign) { c.Valid(mix, 3) }},
		{"silent about faults", silent, func(c *sim.Campaign) { c.Fault(stale, 3) }},
		{"noisy about faults", noisy, func(c *sim.Campaign) { c.Fault(stale, 3) }},
	} {
		camp := &sim.Campaign{Ledger: c.judge, Seed: 1, Out: t.Output()}
		c.run(camp)
		if camp.Objections() != 3 {
			t.Errorf("%s: %d objections, not 3", c.name, camp.Objections())
		}
	}
	camp := &sim.Campaign{Ledger: silent, Oracle: noisy, Seed: 1, Out: t.Output()}
	camp.Valid(mix, 1)
	if camp.Objections() != 3 {
		t.Errorf("two wrong judges that differ: %d objections, not 3", camp.Objections())
	}
}

// Promise: what two judges differ about is shrunk to the facts that matter,
// with no gap where there was none.
func TestADifferenceShrinksToWhatMatters(t *testing.T) {
	mix, _ := sim.MixByName("unified")
	trace := sim.New(1, mix).Run(10)
	reads := func(facts []*lifecycle.Fact) bool {
		n := 0
		for _, f := range facts {
			if f.Ev == lifecycle.PagesRead {
				n++
			}
		}
		return n >= 2
	}
	small := trace.Shrink(nil, reads)
	if len(small) != 2 || !reads(small) {
		t.Fatalf("shrunk to %d facts, two reads were enough", len(small))
	}
	next := map[string]uint64{}
	for _, f := range small {
		key := fmt.Sprint(f.Inst, f.Epoch, f.Src)
		if f.Seq.Has && f.Seq.V > next[key]+1 {
			t.Errorf("a gap before %d in the shrunk stream of %s", f.Seq.V, f.Inst)
		}
		next[key] = f.Seq.V
	}
}
