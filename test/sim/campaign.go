package sim

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/sidecar/finding"
)

// Campaign is a run of many traces through one or two judges.
type Campaign struct {
	Ledger Judge
	Oracle Judge     // nil: only the ledger is judged
	Seed   uint64    // of the first trace
	Dir    string    // where shrunk traces go; "" keeps none
	Out    io.Writer // tables and objections
	Limit  int       // objections of one class that are shrunk and written; the rest is counted
	// Without names features, fields of Mix, that are left out of every mix.
	Without []string
	// Workers is how many traces are made and judged side by side; 0 is one.
	Workers int

	mu      sync.Mutex // guards Out and what follows
	Hard    Hard
	classes map[string]int
}

// requestsPerTrace is the length of the random traces.
const requestsPerTrace = 14

// Valid judges n traces of valid traffic of a mix.
func (c *Campaign) Valid(mix Mix, n int) {
	done := 0
	begun := time.Now()
	c.sideBySide(func(i uint64) bool { return i < uint64(n) }, func(i uint64) {
		seed := c.Seed + i
		trace := New(seed, mix.without(c.Without)).Run(requestsPerTrace)
		c.judge(mix.Name, seed, &trace, func(t *Trace, fs []finding.Finding, vs []finding.Verdict) *Objection {
			return t.CheckValid(fs, vs)
		})
		c.mu.Lock()
		defer c.mu.Unlock()
		c.count(&trace)
		if done++; done%progress == 0 {
			fmt.Fprintf(c.Out, "%s: %d of %d traces, %.0f traces/s\n", mix.Name, done, n, float64(done)/time.Since(begun).Seconds())
		}
	})
}

// progress is after how many traces a campaign tells how far it is.
const progress = 1000

// sideBySide does one thing after the other, or so many at a time as there are
// workers, for 0, 1, 2 and so on as long as there is to be more.
func (c *Campaign) sideBySide(more func(i uint64) bool, do func(i uint64)) {
	var all sync.WaitGroup
	next := uint64(0)
	take := func() (i uint64, some bool) {
		c.mu.Lock()
		defer c.mu.Unlock()
		i, some = next, more(next)
		next++
		return i, some
	}
	for range max(c.Workers, 1) {
		all.Go(func() {
			for i, some := take(); some; i, some = take() {
				do(i)
			}
		})
	}
	all.Wait()
}

// Fault puts n faults of one sort into as many traces and reports how many
// of them could be put in; with several workers it may be some more.
func (c *Campaign) Fault(f *Fault, n int) (struck int) {
	c.sideBySide(func(i uint64) bool { return struck < n && i < uint64(50*n+200) }, func(i uint64) {
		seed := c.Seed + i
		trace, ok := strikes(seed, f, c.Without)
		if !ok {
			return
		}
		c.mu.Lock()
		struck++
		c.count(&trace)
		c.mu.Unlock()
		c.judge(f.Name, seed, &trace, func(t *Trace, fs []finding.Finding, _ []finding.Verdict) *Objection {
			return t.CheckFault(fs)
		})
	})
	return struck
}

// Strikes makes the trace of that seed with the fault at a random place, if
// there is one.
func Strikes(seed uint64, f *Fault) (Trace, bool) { return strikes(seed, f, nil) }

func strikes(seed uint64, f *Fault, off []string) (Trace, bool) {
	mix, _ := MixByName(f.Mixes[seed%uint64(len(f.Mixes))])
	mix = mix.inReach(f).without(off)
	dry := New(seed, mix)
	dry.Strike = &Strike{Fault: f, Skip: 1 << 30}
	dry.Run(requestsPerTrace)
	if dry.Strike.Seen == 0 {
		return Trace{}, false
	}
	wet := New(seed, mix)
	wet.Strike = &Strike{Fault: f, Skip: int((seed * 0x9e3779b97f4a7c15 >> 33) % uint64(dry.Strike.Seen))}
	trace := wet.Run(requestsPerTrace)
	return trace, wet.Strike.Done && wet.Strike.shows(trace.Facts)
}

// shows reports whether a fault that only a transfer brings to light met one, and
// one that only time brings to light had it.
func (k *Strike) shows(facts []*lifecycle.Fact) bool {
	if k.tardy != nil && !tooLate(facts, k.tardy) {
		return false
	}
	return k.meets == "" || slices.ContainsFunc(facts, func(f *lifecycle.Fact) bool {
		return f.Ev == lifecycle.TransferStarted && f.Inst == k.meets
	})
}

// tooLate reports whether a fact came after one of its stream with a higher number
// was applied, as time had passed by then.
func tooLate(facts []*lifecycle.Fact, late *lifecycle.Fact) bool {
	clocks := map[string]int64{}
	high, next := int64(math.MinInt64), int64(math.MaxInt64)
	for _, f := range facts {
		if f.Ev == lifecycle.ClockOffset {
			clocks[f.Node] = f.NS
		}
		if f == late {
			return next < high-settle
		}
		at := f.T - clocks[f.Node]
		high = max(high, at)
		if f.Inst == late.Inst && f.Src == late.Src && f.Epoch == late.Epoch && f.Seq.Has && f.Seq.V > late.Seq.V {
			next = min(next, at)
		}
	}
	return false
}

// inReach keeps away from a fault what would hide it, and brings what it
// needs.
func (m Mix) inReach(f *Fault) Mix {
	m.Restarts, m.Attach, m.Synthetic = 0, 0, 0
	switch f.Kind {
	case finding.RejectedHandoff:
		m.Reject, m.Abort = 0.4, 0.4
	case finding.EarlyRelease:
		m.Abort = 0.6
	case finding.WriteAfterRelease:
		m.Posted = 0 // it would look like the end of what was posted before
	case finding.ForeignPage:
		m.Scratch = 0 // a page that is handed out for nobody accuses nobody
	case finding.PoolImbalance:
		m.Audits = 1
	case finding.VRAMMismatch:
		m.VRAM = 1
	case finding.ContentMismatch:
		m.Digests = 0.5
	case finding.TenantCrossing:
		m.Prefix = 1
		m.Offload, m.Copies = 0, 0 // a copy of a page that all may share is one, whoever holds it
	case finding.WrongBlock:
		m.Prefix = 1
	}
	return m
}

// Stream sends n facts of one long-lived cluster through a ledger.
func (c *Campaign) Stream(mix Mix, n int, ledger Stepper) {
	mix = mix.without(c.Without)
	if o := Stream(c.Seed, mix, n, ledger, c.Out); o != nil {
		c.tally("stream: " + mix.Name + ": " + o.Class)
		fmt.Fprintf(c.Out, "seed %d: stream: %s: %v\n", c.Seed, mix.Name, o)
	}
}

func (c *Campaign) count(t *Trace) {
	if c.Hard == nil {
		c.Hard = Hard{}
	}
	c.Hard.Add(t.Hard)
}

type check func(*Trace, []finding.Finding, []finding.Verdict) *Objection

// judge holds both judges to the check, and against each other.
func (c *Campaign) judge(name string, seed uint64, t *Trace, must check) {
	fs, vs := c.Ledger(t.Facts)
	if o := must(t, fs, vs); o != nil {
		c.object("ledger: "+name, seed, t, o, func(facts []*lifecycle.Fact) *Objection {
			fs, vs := c.Ledger(facts)
			return must(t, fs, vs)
		})
	}
	if c.Oracle == nil {
		return
	}
	ofs, ovs := c.Oracle(t.Facts)
	if o := must(t, ofs, ovs); o != nil {
		c.object("oracle: "+name, seed, t, o, func(facts []*lifecycle.Fact) *Objection {
			fs, vs := c.Oracle(facts)
			return must(t, fs, vs)
		})
	}
	if o := CheckAgree(fs, ofs, vs, ovs); o != nil {
		c.object("agree: "+name, seed, t, o, func(facts []*lifecycle.Fact) *Objection {
			fs, vs := c.Ledger(facts)
			ofs, ovs := c.Oracle(facts)
			return CheckAgree(fs, ofs, vs, ovs)
		})
	}
}

// object counts an objection; the first of its class are shrunk and written.
func (c *Campaign) object(name string, seed uint64, t *Trace, o *Objection, again func([]*lifecycle.Fact) *Objection) {
	c.mu.Lock()
	wanted := c.tally(name+": "+o.Class) <= c.Limit
	if wanted {
		fmt.Fprintf(c.Out, "seed %d: %s: %v\n", seed, name, o)
	}
	c.mu.Unlock()
	if !wanted || c.Dir == "" {
		return
	}
	var keep *Want
	if !strings.HasPrefix(name, "agree") {
		keep = &Want{}
		if t.Struck != nil {
			keep = &t.Struck.Want
		}
	}
	small := t.Shrink(keep, func(facts []*lifecycle.Fact) bool {
		smaller := again(facts)
		return smaller != nil && smaller.Class == o.Class
	})
	if last := again(small); last != nil {
		o = last
	}
	file, err := WriteTrace(c.Dir, name+"-"+o.Class, seed, small, o)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		fmt.Fprintf(c.Out, "  %v\n", err)
		return
	}
	fmt.Fprintf(c.Out, "  shrunk to %d facts: %s\n", len(small), file)
}

func (c *Campaign) tally(class string) int {
	if c.classes == nil {
		c.classes = map[string]int{}
	}
	c.classes[class]++
	return c.classes[class]
}

// Objections is how many there were, of every class.
func (c *Campaign) Objections() (n int) {
	for _, k := range c.classes {
		n += k
	}
	return n
}

// PrintObjections lists the classes and how often each came.
func (c *Campaign) PrintObjections() {
	classes := make([]string, 0, len(c.classes))
	for class := range c.classes {
		classes = append(classes, class)
	}
	slices.Sort(classes)
	for _, class := range classes {
		fmt.Fprintf(c.Out, "%8d  %s\n", c.classes[class], class)
	}
}
