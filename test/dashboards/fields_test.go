package dashboards

import (
	"encoding/json"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/kvwitness/kvwitness/dashboards/alert"
)

// fieldsOfRunbooks holds that every path that a runbook has curl ask for is served,
// and every field that it has jq pick is in what is served, before a sidecar that
// has found something.
func fieldsOfRunbooks(t *testing.T, sidecar string) {
	t.Helper()
	ask := regexp.MustCompile(`curl -s 127\.0\.0\.1:9464(/[a-z0-9/]+)(?: \| jq '([^\n]*)'\n)?`)
	picked := regexp.MustCompile(`\{([a-z_, ]+)\}`)
	served := map[string]string{}
	asked := 0
	for _, r := range alert.Rules() {
		for _, m := range ask.FindAllStringSubmatch(runbook(t, r.Name), -1) {
			body, known := served[m[1]]
			if !known {
				body = fetch(t, sidecar+m[1])
				served[m[1]] = body
			}
			for _, fields := range picked.FindAllStringSubmatch(m[2], -1) {
				for field := range strings.SplitSeq(fields[1], ", ") {
					asked++
					if !strings.Contains(body, `"`+field+`":`) {
						t.Errorf("%s has jq pick %s, which %s has not", r.Name, field, m[1])
					}
				}
			}
		}
	}
	if asked < 50 || len(served) < 4 {
		t.Errorf("only %d fields of %d paths are asked for", asked, len(served))
	}
}

func fetch(t *testing.T, url string) string {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s, %v", url, resp.Status, err)
	}
	if !strings.HasSuffix(url, "/metrics") && !json.Valid(body) {
		t.Errorf("%s does not answer with JSON", url)
	}
	return string(body)
}
