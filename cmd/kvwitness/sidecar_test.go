package main

import (
	"path/filepath"
	"strings"
	"testing"
)

func TestASidecarThatCannotWatchSaysWhy(t *testing.T) {
	kvwitness(t, "sidecar").expect(t, statusError, "nothing to see", "--engines")
	kvwitness(t, "sidecar", "--engines", "A=http://h:1").expect(t, statusError, "engines from flag --engines", "NAME=URL")
	kvwitness(t, "sidecar", "--engines", "a=http://127.0.0.1:1", "--listen", "0.0.0.0:0").expect(t, statusError, "not a private address", "token_file")
	kvwitness(t, "sidecar", "--engines", "a=http://127.0.0.1:1", "--record", filepath.Join(t.TempDir(), "gone", "t")).expect(t, statusError, "begin a trace")
}

func TestTheReferenceOfMetricsIsPrinted(t *testing.T) {
	kvwitness(t, "metrics").expect(t, statusFine, "# Metrics", "kvwitness_findings_total", "`stale_read`")
}

func TestADemoWithoutItsEngineSaysHowToGetIt(t *testing.T) {
	start(t, []string{"PATH="}, strings.NewReader(""), "demo").expect(t, statusError, "kvengine", "make build")
	kvwitness(t, "demo", "--kvengine", "/nowhere/kvengine").expect(t, statusError, "drill rejected-handoff", "no such file")
}
