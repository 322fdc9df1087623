package main

import (
	"errors"
	"strings"
	"testing"
)

func TestTheFirstFailureOfASubtestNamesTheKill(t *testing.T) {
	const out = `{"Action":"start","Package":"m/test/traces"}
{"Action":"run","Package":"m/test/traces","Test":"TestA"}
{"Action":"pass","Package":"m/test/traces","Test":"TestA"}
{"Action":"run","Package":"m/test/traces","Test":"TestB"}
{"Action":"run","Package":"m/test/traces","Test":"TestB/one"}
{"Action":"output","Package":"m/test/traces","Test":"TestB/one","Output":"    b_test.go:7: it differs\n"}
{"Action":"fail","Package":"m/test/traces","Test":"TestB/one","Elapsed":0}
{"Action":"fail","Package":"m/test/traces","Test":"TestB","Elapsed":0}
{"Action":"fail","Package":"m/test/traces","Elapsed":0.1}
`
	k, err := readTests(strings.NewReader(out))
	if err != nil || k.by != "traces.TestB/one" || !strings.Contains(k.said, "it differs") {
		t.Errorf("got %+v, %v", k, err)
	}
}

func TestGreenTestsKillNobody(t *testing.T) {
	k, err := readTests(strings.NewReader(`{"Action":"pass","Package":"m/a","Test":"TestA"}
{"Action":"pass","Package":"m/a"}
`))
	if err != nil || k.by != "" {
		t.Errorf("got %+v, %v", k, err)
	}
}

func TestWhatFailsWithoutATestIsNoKill(t *testing.T) {
	for _, c := range []struct {
		out  string
		want error
	}{
		{`{"ImportPath":"m/a","Action":"build-output","Output":"a.go:3:1: undefined: x\n"}
{"ImportPath":"m/a","Action":"build-fail"}
{"Action":"fail","Package":"m/b","FailedBuild":"m/a"}`, errBuild},
		{`{"Action":"output","Package":"m/a","Output":"signal: killed\n"}
{"Action":"fail","Package":"m/a"}`, errNoTests},
	} {
		if k, err := readTests(strings.NewReader(c.out)); !errors.Is(err, c.want) || k.by != "" {
			t.Errorf("got %+v, %v, want %v", k, err, c.want)
		}
	}
	if _, err := readTests(strings.NewReader("go: no such tool\n")); err == nil {
		t.Error("what is no JSON is taken for green")
	}
}

func TestTheSimulationKillsWithItsFirstObjection(t *testing.T) {
	const green = "seed 1\nunified          20 traces, 0 objections so far\nhard cases:\n   1  the same bytes twice   3\n"
	if k := readSim(green); k.by != "" {
		t.Errorf("a green simulation kills: %+v", k)
	}
	const red = "seed 1\nseed 4: ledger: unified: valid traffic gives stale_read\n  stale_read inst=a\nseed 5: ledger: x: y\n"
	if k := readSim(red); k.by != "sim: ledger: unified: valid traffic gives stale_read" {
		t.Errorf("got %+v", k)
	}
	if k := readSim("seed 1\npanic: index out of range\n\ngoroutine 1\n"); k.by != "sim: panic: index out of range" {
		t.Errorf("got %+v", k)
	}
}
