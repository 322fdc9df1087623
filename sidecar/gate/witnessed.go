package gate

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/sidecar/finding"
	"github.com/kvwitness/kvwitness/sidecar/source/engineinfo"
)

// ofTransfer and ofLifetime are the kinds of findings that a section asks for; each
// kind but blind, which shows in transfer.witnessed, is in one of them. The name of the check is the kind's.
var (
	ofTransfer = []finding.Kind{
		finding.CapacityInversion, finding.RejectedHandoff, finding.ShortHandoff, finding.StaleRead, finding.ClaimMismatch,
		finding.ContentMismatch, finding.LayoutMismatch,
	}
	ofLifetime = []finding.Kind{
		finding.WriteAfterRelease, finding.EarlyRelease, finding.ForeignPage, finding.TenantCrossing, finding.WrongBlock,
		finding.DoubleHold, finding.DoubleRelease, finding.PoolImbalance, finding.StalledReservation,
		finding.VRAMMismatch,
	}
)

func transfer(p *Picture) []Check {
	all := []Check{witnessed(p.Witness)}
	for _, k := range ofTransfer {
		all = append(all, none(p.Witness, "transfer.", k))
	}
	return append(all, protection(p, "transfer.", engineinfo.Checksum), protection(p, "transfer.", engineinfo.Canary))
}

func lifetime(p *Picture) (all []Check) {
	for _, k := range ofLifetime {
		all = append(all, none(p.Witness, "lifetime.", k))
	}
	return append(all, disconnect(p.Witness), protection(p, "lifetime.", engineinfo.DeferredRelease))
}

// tears are the findings of a transfer that was torn by an abort.
var tears = []finding.Kind{finding.EarlyRelease, finding.WriteAfterRelease, finding.RejectedHandoff}

// disconnect: a client that hangs up ends no transfer in its middle.
func disconnect(w *Witness) Check {
	c := Check{
		Name: "lifetime.disconnect", Asked: "does a client's disconnect, through the load balancer, tear a running transfer?",
		Expected: "clients that hung up, and pages that stay until every writer has drained", Found: "not witnessed", Mend: mendWitness, Status: Unchecked,
	}
	if w == nil || w.Problem != "" || w.HungUp == 0 || w.Clean == 0 {
		return c
	}
	c.Found = fmt.Sprintf("%d hung up, %d of them before the handoff was completed", w.HungUp, w.Interrupted)
	c.Status = Pass
	for _, k := range tears {
		if n := w.Findings[k.String()]; n > 0 {
			c.Status = Fail
			c.Found += fmt.Sprintf(", %d %s", n, k)
			c.Mend = "let the load balancer not turn a disconnect into an abort in the middle of a transfer; switch deferred release on for both roles"
		}
	}
	return c
}

const mendWitness = "name a sidecar that follows these engines (--sidecar), and let it watch them from outside (--watch, as root, started before the engines): see kvwitness check"

// witnessed: of the gate's own handoffs each was seen.
func witnessed(w *Witness) Check {
	c := Check{
		Name: "transfer.witnessed", Asked: "was each handoff of the gate's traffic seen, reserved against written?", Expected: "verdicts that are clean",
		Found: "not witnessed: no sidecar was named", Mend: mendWitness, Status: Unchecked,
	}
	switch {
	case w == nil:
		return c
	case w.Problem != "":
		c.Found = "not witnessed: " + w.Problem
		return c
	}
	c.Found = fmt.Sprintf("%d clean, %d violated, %d unwitnessed, %d not completed (the gate hung up on %d)", w.Clean, w.Violated, w.Unwitnessed, w.Interrupted, w.HungUp)
	for _, why := range slices.Sorted(maps.Keys(w.Why)) {
		c.Found += fmt.Sprintf("; %d: %s", w.Why[why], why)
	}
	switch {
	case w.Violated > 0:
		c.Status, c.Mend = Fail, "see the findings"
	case w.Clean > 0 && w.Unwitnessed == 0 && w.Interrupted <= w.HungUp:
		c.Status = Pass
	}
	return c
}

// none: no finding of that kind.
func none(w *Witness, section string, k finding.Kind) Check {
	name := k.String()
	c := Check{
		Name: section + name, Asked: "does the sidecar find " + name + "?", Expected: "none, of handoffs that it has seen",
		Found: "not witnessed", Mend: mendWitness, Status: Unchecked,
	}
	switch {
	case w == nil || w.Problem != "":
	case w.Findings[name] > 0:
		c.Status, c.Found = Fail, fmt.Sprintf("%d: %s", w.Findings[name], w.Examples[name])
		c.Mend = "kvwitness explain " + name
	case w.Clean > 0:
		c.Status, c.Found = Pass, fmt.Sprintf("none, and %d requests are clean", w.Clean)
	default:
		c.Found = "none, but no handoff was seen whole: not witnessed"
	}
	return c
}

// protection: one of the three that operators are told to run is shown to have run,
// on some engine, and is off on none.
func protection(p *Picture, section string, which int) Check {
	name := engineinfo.Protections[which]
	c := Check{
		Name: section + strings.ReplaceAll(name, "-", "_"), Asked: "has " + name + " run on the gate's traffic?",
		Expected: "it is off nowhere, and has run", Mend: "switch it on where the engine has it, and let its log or server_info show that it ran; where the architecture has none, say --without " + name,
	}
	ran, off := 0, 0
	var found []string
	for i := range p.Engines {
		e := &p.Engines[i]
		state, words := e.Info.Protections[which], "does not say"
		switch state.State() {
		case lifecycle.StateRan:
			ran++
			words = fmt.Sprintf("ran %d times", state.Ran)
		case lifecycle.StateOff:
			off++
			words = "off"
		default:
			if state.On {
				words = "on, and not shown to have run"
			}
		}
		found = append(found, e.Name+": "+words)
	}
	c.Found = strings.Join(found, ", ")
	switch {
	case p.Without[name]:
		c.Found += "; done without, as the operator says"
	case off > 0:
		c.Status = Fail
	case ran == 0:
		c.Status = Unchecked
	}
	return c
}
