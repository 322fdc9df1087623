package metrics

import (
	"strings"
	"testing"

	"github.com/kvwitness/kvwitness/sidecar/source/follow"
	"github.com/kvwitness/kvwitness/sidecar/source/proven"
)

// Promise: what was copied is told of its engine by its name, from 0 on, and of what no
// engine is nothing; and only where somebody looks.
func TestCopiesAreToldOfTheirEngine(t *testing.T) {
	r := Reading{Engines: []follow.Status{{Name: "a", Instance: "instance-0"}, {Name: "b"}}}
	for name := range values(t, r) {
		if strings.Contains(name, "copie") {
			t.Errorf("nobody looks, and %s is told", name)
		}
	}
	r.Copies = &Copies{Of: map[string]proven.Copied{"instance-0": {Into: 1, OutOf: 2, Within: 3}, "10.0.0.9:1": {Into: 9}}, Uncounted: 4}
	all := values(t, r)
	for name, want := range map[string]float64{
		"pool_copied_bytes_total direction=into engine=a": 1, "pool_copied_bytes_total direction=out_of engine=a": 2,
		"pool_copied_bytes_total direction=within engine=a": 3, "pool_copied_bytes_total direction=into engine=b": 0,
		"cuda_copies_uncounted_total": 4,
	} {
		if got, there := all[name]; !there || got != want {
			t.Errorf("%s is %v, %v; want %v", name, got, there, want)
		}
	}
	for name := range all {
		if strings.Contains(name, "10.0.0.9") {
			t.Errorf("told: %s", name)
		}
	}
}
