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
