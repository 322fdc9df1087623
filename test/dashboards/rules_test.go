package dashboards

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/kvwitness/kvwitness/dashboards/alert"
	"github.com/kvwitness/kvwitness/sidecar/finding"
)

const (
	alertsFile     = root + "/dashboards/rules/alerts.yml"
	recordingsFile = root + "/dashboards/rules/recordings.yml"
	ruleTests      = root + "/dashboards/rules/tests/"
)

func TestPromtoolAcceptsTheRules(t *testing.T) {
	run(t, "promtool", "check", "rules", alertsFile, recordingsFile)
}

func TestRulesDoAsTheirTestsSay(t *testing.T) {
	run(t, "promtool", "test", "rules", ruleTests+"witness.yml", ruleTests+"annotations.yml", ruleTests+"recordings.yml")
}

// urgent is what each kind of finding asks of people: a second statement of it,
// beside the one that the rules are made from.
var urgent = map[string][]string{
	"page": {
		"stale_read KVWitnessStaleRead", "foreign_page KVWitnessForeignPage", "tenant_crossing KVWitnessTenantCrossing", "wrong_block KVWitnessWrongBlock",
		"short_handoff KVWitnessShortHandoff", "write_after_release KVWitnessWriteAfterRelease", "content_mismatch KVWitnessContentMismatch",
	},
	"ticket": {
		"rejected_handoff KVWitnessRejectedHandoff", "early_release KVWitnessEarlyRelease", "claim_mismatch KVWitnessClaimMismatch",
		"capacity_inversion KVWitnessCapacityInversion", "layout_mismatch KVWitnessLayoutMismatch", "double_hold KVWitnessDoubleHold",
		"double_release KVWitnessDoubleRelease", "vram_mismatch KVWitnessVRAMMismatch", "pool_imbalance KVWitnessPoolImbalance",
		"stalled_reservation KVWitnessStalledReservation",
	},
	"none": {"blind KVWitnessBlind"},
}

// unit is a file of promtool's unit tests.
type unit struct {
	Rules    []string   `yaml:"rule_files"`
	Interval string     `yaml:"evaluation_interval"`
	Tests    []unitTest `yaml:"tests"`
}

type unitTest struct {
	Name     string            `yaml:"name,omitempty"`
	Interval string            `yaml:"interval"`
	Series   []map[string]any  `yaml:"input_series"`
	Exprs    []expectedSamples `yaml:"promql_expr_test"`
}

type expectedSamples struct {
	Expr    string           `yaml:"expr"`
	At      string           `yaml:"eval_time"`
	Samples []map[string]any `yaml:"exp_samples"`
}

// kindsTest has four nodes for each kind: on one the kind is found, on one it was
// found before the first scrape of a young process, on one before Prometheus came
// back to an old process, and on one in shadow mode. Only the first two fire, each
// the alert of its kind, and each falls silent again.
func kindsTest(t *testing.T) unitTest {
	u := unitTest{Interval: "1m"}
	series := func(values, form string, args ...any) {
		u.Series = append(u.Series, map[string]any{"series": fmt.Sprintf(form, args...), "values": values})
	}
	fires := []map[string]any{}
	for severity, kinds := range urgent {
		for _, line := range kinds {
			kind, name, _ := strings.Cut(line, " ")
			k, known := finding.ByName(kind)
			if !known {
				t.Fatalf("%s is no kind", kind)
			}
			for node, c := range map[string]struct{ values, wakes, start string }{
				"found": {"0x5 1x60", "yes", "0"}, "young": {"_x6 2x60", "yes", "200"},
				"old": {"_x6 2x60", "yes", "-90000"}, "quiet": {"0x5 1x60", "no", "0"},
			} {
				at := fmt.Sprintf(`job="kvwitness",instance="%s-%s",cluster="c",model="m",node="%s-%s"`, node, kind, node, kind)
				series("1x90", `up{%s}`, at)
				series(c.start+"x90", `process_start_time_seconds{%s}`, at)
				series(c.values, `kvwitness_findings_total{%s,kind="%s",severity="%s",wakes="%s"}`, at, kind, k.Severity(), c.wakes)
				if node == "found" || node == "young" {
					fires = append(fires, map[string]any{"value": 1, "labels": fmt.Sprintf(
						`ALERTS{alertname="%s",alertstate="firing",cluster="c",kind="%s",model="m",node="%s-%s",severity="%s",team="serving"}`, name, kind, node, kind, severity)})
				}
			}
		}
	}
	const ask = `ALERTS{alertstate="firing",alertname!="KVWitnessWatchdog"}`
	u.Exprs = []expectedSamples{{ask, "5m", nil}, {ask, "6m", fires}, {ask, "19m", fires}, {ask, "40m", nil}}
	return u
}

func TestEachKindOfFindingHasItsAlertWhichIsSilentInShadowMode(t *testing.T) {
	rules, err := filepath.Abs(alertsFile)
	if err != nil {
		t.Fatal(err)
	}
	text, err := yaml.Marshal(unit{[]string{rules}, "1m", []unitTest{kindsTest(t)}})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "kinds.yml")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	run(t, "promtool", "test", "rules", path)
	if n := len(urgent["page"]) + len(urgent["ticket"]) + len(urgent["none"]); n != int(finding.NumKind) {
		t.Errorf("%d kinds are tested, there are %d", n, finding.NumKind)
	}
}

// An alert whose tests show only one of the two says nothing.
func TestEveryAlertHasATestInWhichItFiresAndOneInWhichItDoesNot(t *testing.T) {
	text, err := os.ReadFile(ruleTests + "witness.yml")
	if err != nil {
		t.Fatal(err)
	}
	var u unit
	if err := yaml.Unmarshal(text, &u); err != nil {
		t.Fatal(err)
	}
	tested := func(name string) (fires, silent bool) {
		for _, test := range u.Tests {
			for _, e := range test.Exprs {
				says := slices.ContainsFunc(e.Samples, func(s map[string]any) bool {
					return strings.Contains(fmt.Sprint(s["labels"]), `alertname="`+name+`"`)
				})
				fires = fires || says
				silent = silent || test.Name == name && !says
			}
		}
		return fires, silent
	}
	for _, r := range alert.Rules() {
		if fires, silent := tested(r.Name); r.Kind == "" && !(fires && silent) {
			t.Errorf("%s: fires in a test %t, is silent in a test of its own %t", r.Name, fires, silent)
		}
	}
}

func TestAnAlertPagesOnlyOnEvidenceOfWrongData(t *testing.T) {
	for _, r := range alert.Rules() {
		k, _ := finding.ByName(r.Kind)
		if pages := r.Urgency == alert.Page; pages != (r.Kind != "" && k.Severity() == finding.Critical) {
			t.Errorf("%s pages: %t", r.Name, pages)
		}
	}
}
