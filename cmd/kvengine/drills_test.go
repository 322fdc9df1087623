package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/kvwitness/kvwitness/engine/drill"
	"github.com/kvwitness/kvwitness/engine/scheduler"
)

// Promise: every drill has its row, its protections and what must be found.
func TestDrillsListsEveryDrill(t *testing.T) {
	var out bytes.Buffer
	if err := printDrills(&out); err != nil {
		t.Fatal(err)
	}
	for _, d := range scheduler.Drills() {
		e := drill.Expected(d.Drill)
		if e.Why == "" || (len(e.Findings) == 0) != (d.Drill == scheduler.LyingEngine) {
			t.Errorf("%s: %+v", d.Name, e)
		}
		for line := range strings.Lines(out.String()) {
			if strings.HasPrefix(line, d.Name+" ") && !strings.Contains(line, "(") && strings.Count(line, "stops") != len(d.Off) {
				t.Errorf("%s: want %d protections that stop it", strings.TrimSpace(line), len(d.Off))
			}
		}
		for p := range scheduler.NumProtections {
			if _, stops := drill.Stops(d.Drill, p); stops != slices.Contains(d.Off, p) {
				t.Errorf("%s is switched off by %s: %v, and stops it: %v", p, d.Name, !stops, stops)
			}
		}
		if !strings.Contains(out.String(), e.Why) || !strings.Contains(out.String(), d.Fault) {
			t.Errorf("%s is not explained", d.Name)
		}
	}
}
