package e2e

import (
	"cmp"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/sidecar/finding"
	"github.com/kvwitness/kvwitness/sidecar/ledger"
)

// traceDir is where a test's traces go: E2E_TRACES keeps them.
func traceDir(t testing.TB) string {
	top := os.Getenv("E2E_TRACES")
	if top == "" {
		return t.TempDir()
	}
	dir := filepath.Join(top, strings.ReplaceAll(t.Name(), "/", "-"))
	if err := errors.Join(os.RemoveAll(dir), os.MkdirAll(dir, 0o755)); err != nil {
		t.Fatal(err)
	}
	return dir
}

// facts ends the engines and reads what they said, in order of time.
func (c *cluster) facts() (all []*lifecycle.Fact) {
	c.t.Helper()
	c.close()
	for _, path := range c.traces {
		in, err := os.Open(path)
		if err != nil {
			c.t.Fatal(err)
		}
		r := lifecycle.NewReader(in, path)
		var f *lifecycle.Fact
		for f, err = r.Next(); err == nil; f, err = r.Next() {
			all = append(all, f)
		}
		if !errors.Is(err, io.EOF) {
			c.t.Fatal(err)
		}
		c.must(in.Close())
	}
	slices.SortStableFunc(all, func(a, b *lifecycle.Fact) int { return cmp.Compare(a.T, b.T) })
	return all
}

// findings replays the recorded traces through the ledger.
func (c *cluster) findings() (all []finding.Finding) {
	c.t.Helper()
	l := ledger.New(ledger.Config{HoldVerdicts: true})
	for _, f := range c.facts() {
		all = append(all, slices.Clone(l.Step(f))...)
	}
	return append(all, l.Close()...)
}

// expectFindings compares the kinds of what the traces give with want.
func (c *cluster) expectFindings(want ...string) {
	c.t.Helper()
	kinds := map[string]finding.Finding{}
	for _, f := range c.findings() {
		kinds[f.Kind.String()] = f
	}
	got := slices.Sorted(maps.Keys(kinds))
	want = slices.Sorted(slices.Values(want))
	if !slices.Equal(got, want) {
		c.t.Errorf("findings %v, want %v", got, want)
		for _, f := range kinds {
			c.t.Logf("%+v", f)
		}
	}
}
