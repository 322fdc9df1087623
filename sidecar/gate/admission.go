package gate

import (
	"fmt"
	"strings"

	"github.com/kvwitness/kvwitness/sidecar/canary"
)

// questions are the trials as checks.
var questions = [NumTrial]struct{ name, asked, expected, mend string }{
	Valid: {
		"admission.valid", "is an ordinary request answered, with what its prompt holds?", "HTTP 200 and the markers of the prompt",
		"look at the engine's log: this request is well within all bounds",
	},
	OverContext: {
		"admission.over_context", "is a request longer than the context refused?", "a status of 4xx, and the reason in words",
		"the door must refuse it before bootstrap, metadata buffer and forward (SGLang from 0.5.21 on)",
	},
	OverPool: {
		"admission.over_pool", "is a request shorter than the context and longer than a pool refused?", "a status of 4xx, and the reason in words",
		"the door must refuse it (SGLang from 0.5.21 on), or the context must be lowered to the smallest pool",
	},
	Reentering: {
		"admission.reentering", "is a request that was hung up on, and comes again, answered?", "HTTP 200 and the markers of the prompt",
		"a request that enters again must not be ended for the mark of its earlier life, and must not find its half-written pages in a cache",
	},
	Preempted: {
		"admission.preempted", "are requests answered that had to give up their pages?", "HTTP 200 and the markers of each prompt, and some that were preempted",
		"a preempted request must not be dropped at the door, and its pages must be written again before they are read",
	},
	Holding: {
		"admission.holding", "is a request answered to its end while others are refused?", "HTTP 200 and the markers of the prompt",
		"refusing one request must not end another that holds pages, or let go of them",
	},
}

func admission(p *Picture) (all []Check) {
	for t := range NumTrial {
		all = append(all, tried(p, t))
	}
	for i := range p.Engines {
		all = append(all, rest(&p.Engines[i]))
	}
	return all
}

func tried(p *Picture, t Trial) Check {
	q, o := questions[t], p.Trials[t]
	c := Check{Name: q.name, Asked: q.asked, Expected: q.expected, Found: o.found(), Mend: q.mend}
	total := 0
	for _, n := range o.Got {
		total += n
	}
	switch {
	case o.NoneSuch:
		c.Found = "there is none: every pool holds the context"
		return c
	case total == 0:
		c.Status, c.Mend = Unchecked, "name a router or an engine to ask, and allow traffic"
		if o.Why == "" {
			c.Found = "it was not tried"
		}
		return c
	case o.Got[o.Want] < total:
		c.Status = Fail
		return c
	}
	if t == Preempted && p.Preempted.Or(0) == 0 {
		c.Status, c.Mend = Unchecked, "raise --preempt-requests until the pool cannot hold them all; the engines count preemptions in their metrics"
		c.Found += "; no request is known to have been preempted"
	}
	return c
}

func (o *Outcome) found() string {
	if o.Why != "" {
		return o.Why
	}
	var parts []string
	for i, n := range o.Got {
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, canary.Outcome(i)))
		}
	}
	if o.Reason != "" {
		parts = append(parts, fmt.Sprintf("the reason given: %q", o.Reason))
	}
	return strings.Join(parts, ", ")
}

// rest: what ended holds nothing.
func rest(e *Engine) Check {
	c := Check{
		Name: "admission.released", On: e.Name, Asked: "does anything hold pages once every request has ended?", Expected: "no page is held",
		Found: fmt.Sprintf("%d pages are held", e.Held.V), Mend: "a refused or aborted request has left pages behind: look for a leak in the engine's log and pool_imbalance in the sidecar's findings",
		Status: failing(e.Held.V > 0),
	}
	if !e.Held.Has {
		c.Status, c.Found, c.Mend = Unchecked, "the engine does not say how many are", "let it show metrics"
	}
	return c
}
