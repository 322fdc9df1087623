package monitoring

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/kvwitness/kvwitness/test/live"
)

// Prometheus starts one in a folder with the scrape configuration and the rules of
// the tree at root, each second, for one sidecar: cluster test, model induction,
// node-a. sidecar and alertmanager are URLs.
func Prometheus(root, dir, sidecar, alertmanager string) (*Server, error) {
	rules, err := filepath.Abs(filepath.Join(root, "dashboards/rules"))
	if err != nil {
		return nil, err
	}
	path, err := Tool(root, "prometheus")
	if err != nil {
		return nil, err
	}
	for name, change := range map[string][]string{
		"prometheus.yml": {"_interval: 15s", "_interval: 1s", "alertmanager:9093", host(alertmanager), "rules/", rules + "/"},
		"targets.yml":    {"node-a.example:9464", host(sidecar), "cluster: example", "cluster: test", "example-70b", "induction"},
	} {
		if err := adapt(filepath.Join(root, "deploy/prometheus", name), filepath.Join(dir, name), change); err != nil {
			return nil, err
		}
	}
	return Serve(path, dir, "--config.file="+filepath.Join(dir, "prometheus.yml"), "--storage.tsdb.path="+filepath.Join(dir, "data"), "--enable-feature=exemplar-storage")
}

func host(url string) string { return strings.TrimPrefix(url, "http://") }

// adapt writes a file with changes, pairs of what is there and what shall be.
func adapt(from, to string, changes []string) error {
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	for i := 0; i < len(changes); i += 2 {
		if !strings.Contains(string(text), changes[i]) {
			return fmt.Errorf("adapt %s: it has no %s", from, changes[i])
		}
	}
	return os.WriteFile(to, []byte(strings.NewReplacer(changes...).Replace(string(text))), 0o600)
}

// Scraped waits until a Prometheus has scraped the sidecar a few times more.
func (s *Server) Scraped(times int) error {
	time.Sleep(time.Duration(times) * time.Second)
	var asked error
	err := live.Await("the sidecar is scraped", func() bool {
		var n int
		_, n, asked = s.Count(fmt.Sprintf(`sum_over_time(up{job="kvwitness"}[%ds]) >= %d`, 2*times+1, times))
		return asked != nil || n == 1
	})
	if asked != nil {
		return asked
	}
	return err
}
