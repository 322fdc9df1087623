package ledger

import "github.com/kvwitness/kvwitness/sidecar/finding"

// blind: a gap, a loss, or a path that cannot be seen, leaves handoffs
// unwitnessed. A gap or a loss always says so, since a whole handoff may have
// happened inside; sight that ends, where a handoff is open. inst is nil where
// a whole node is meant. That nobody ever watched is a verdict, not a finding.
func (l *Ledger) blind(inst *instance, claim, seen string) {
	l.accuse(finding.Blind, inst, nil, nil, nil).say(claim, seen)
}
