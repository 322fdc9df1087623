package main

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/kvwitness/kvwitness/sidecar/credentials"
	"github.com/kvwitness/kvwitness/sidecar/evidence"
	"github.com/kvwitness/kvwitness/sidecar/finding"
	"github.com/kvwitness/kvwitness/sidecar/ledger"
	listener "github.com/kvwitness/kvwitness/sidecar/serve"
	"github.com/kvwitness/kvwitness/sidecar/web"
	"github.com/kvwitness/kvwitness/test/authority"
)

const evidenceBody = `{"part":"opened","findings":[{"kind":"stale_read","severity":"critical","t":5,"inst":"d","req":"r\u001b[31m","room":"7","pool":"kv","pages":[[8,1]],` +
	`"claim":"said","observation":"saw","exposed":[{"inst":"d","req":"a","domain":"f00d"}]}],"facts_since":0,"losses":{}}`

// stored is a folder with the evidence of two incidents, and the head of the first.
func stored(t *testing.T) (dir, head string) {
	t.Helper()
	dir = t.TempDir()
	s, err := evidence.Open(evidence.Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	i := evidence.Incident{ID: "abc", Kind: finding.StaleRead, Kinds: []finding.Kind{finding.StaleRead}, Name: "room 7", Inst: "d", Findings: 1, Exposed: 1, Wakes: true, Open: true}
	l, err := s.Put(i, []byte(evidenceBody))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Put(evidence.Incident{ID: "def", Kind: finding.Blind, Severity: finding.Warning, Kinds: []finding.Kind{finding.Blind}, Name: "instance d"}, []byte(`{"part":"opened"}`)); err != nil {
		t.Fatal(err)
	}
	return dir, l.Hash
}

// Promise: evidence is read alike from the folder of a sidecar that does not run and
// from one that runs.
func TestEvidenceIsListedShownExportedAndVerified(t *testing.T) {
	dir, head := stored(t)
	checkEvidence(t, head, "--store", dir)
	s, err := evidence.Open(evidence.Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	pages := web.Handler(web.Source{
		Store: s, State: func() jsontext.Value { return jsontext.Value("{}") },
		Judge: func(context.Context, func(*ledger.Ledger)) error { return nil },
	})
	running := httptest.NewServer(pages)
	defer running.Close()
	checkEvidence(t, head, "--url", running.URL)
	checkMutual(t, pages)
	kvwitness(t, "findings", "list", "--store", dir).expect(t, 2, "ask that with --url")
	kvwitness(t, "findings", "close", "abc", "--by", "me", "--url", running.URL).expect(t, 2, "why")
	kvwitness(t, "findings", "close", "abc", "--by", "me", "--why", "told the tenant", "--url", running.URL).expect(t, 0)
	kvwitness(t, "findings", "list", "--open", "--url", running.URL).expect(t, 0)
	kvwitness(t, "findings", "show", "abc", "--url", running.URL).expect(t, 0, "closed at", "by me: told the tenant")
}

// checkMutual asks a sidecar that answers only who has a certificate.
func checkMutual(t *testing.T, pages http.Handler) {
	t.Helper()
	files := authority.New(t).Sign(t.TempDir(), "127.0.0.1")
	own, err := credentials.New(credentials.Config{Files: credentials.Files(files), Of: "the test's", Protocols: listener.Protocols, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	s, err := listener.Listen(t.Context(), "127.0.0.1:0", listener.Access{Certificates: own}, listener.Source{Metrics: prometheus.NewRegistry(), Web: pages})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close(t.Context()) }()
	list := []string{"findings", "list", "--url", s.URL()}
	kvwitness(t, append(list, "--ca-file", files.CA)...).expect(t, 2, "certificate required")
	kvwitness(t, append(list, "--cert-file", files.Cert)...).expect(t, 2, "name a certificate and its key")
	kvwitness(t, append(list, "--ca-file", files.CA, "--cert-file", files.Cert, "--key-file", files.Key)...).expect(t, 3, "abc")
}

func checkEvidence(t *testing.T, head string, source ...string) {
	t.Helper()
	run := func(args ...string) result {
		return kvwitness(t, append(append([]string{"findings"}, args...), source...)...)
	}
	list := run("list")
	list.expect(t, 3, "abc", "def", "stale_read", "open")
	run("list", "--kind", "blind", "--open").expect(t, 0)
	run("list", "--kind", "hue").expect(t, 2, "is no kind of finding")
	for line := range strings.Lines(run("list", "--json").out) {
		if err := json.Unmarshal([]byte(line), &evidence.Incident{}); err != nil {
			t.Errorf("%v: %s", err, line)
		}
	}
	show := run("show", "abc")
	show.expect(t, 0, "claimed  said", "seen     saw", "exposed  request a on d, tenant f00d", "Take the instance out of rotation", head, "KVWitnessStaleRead.md")
	if strings.Contains(show.out, "\x1b") {
		t.Error("what an engine says reaches the terminal as it is")
	}
	var all told
	if err := json.Unmarshal([]byte(run("show", "abc", "--json").out), &struct{ Entries *[]toldEntry }{&all.Entries}); err != nil || len(all.Entries) != 1 {
		t.Errorf("%v: %+v", err, all)
	}
	run("show", "none").expect(t, 2, "there is no such incident")
	run("verify").expect(t, 0, "all evidence verifies")
	path := filepath.Join(t.TempDir(), "abc.jsonl")
	run("export", "abc", "--out", path).expect(t, 0)
	run("export", "abc", "--out", path).expect(t, 2, "exists")
	run("verify", path, "--head", head).expect(t, 0, "the alert named them")
	run("verify", path, "--json").expect(t, 0, `"verifies":true`)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(strings.Replace(string(text), "saw", "raw", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	run("verify", path, "--head", head).expect(t, 3, "does not verify")
	run("verify", filepath.Join(t.TempDir(), "none")).expect(t, 2)
}
