package publish

import (
	"testing"

	"github.com/kvwitness/kvwitness/engine/scheduler"
	"github.com/kvwitness/kvwitness/sidecar/finding"
)

// A fault of the engine shows in what is published: the translation hides none.
func TestADrilledEngineIsFoundByWhatItSays(t *testing.T) {
	alone := []scheduler.Role{scheduler.Unified}
	pair := []scheduler.Role{scheduler.Prefill, scheduler.Decode}
	for _, c := range []struct {
		drill scheduler.Drill
		roles []scheduler.Role
		found finding.Kind
	}{
		{scheduler.EarlyRelease, pair, finding.EarlyRelease},
		{scheduler.DoubleRelease, alone, finding.DoubleRelease},
		{scheduler.UnwrittenCache, alone, finding.StaleRead},
		{scheduler.SaltDrop, alone, finding.TenantCrossing},
		{scheduler.StalePull, pair, finding.StaleRead},
		{scheduler.LateChunk, pair, finding.RejectedHandoff},
	} {
		t.Run(c.drill.String(), func(t *testing.T) {
			kinds := map[finding.Kind]int{}
			for seed := uint64(0); seed < 20 && kinds[c.found] == 0; seed++ {
				w, court := newWorld(t, seed), newCourt(t)
				w.drill, w.twins = c.drill, true
				tellTo(w, court.hear)
				w.populate(c.roles)
				for range 6000 {
					w.chance(false)
				}
				court.close()
				for _, f := range court.findings {
					kinds[f.Kind]++
				}
			}
			if kinds[c.found] == 0 {
				t.Fatalf("no %v among the findings of 20 worlds: %v", c.found, kinds)
			}
		})
	}
}
