package dashboards

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kvwitness/kvwitness/engine/scheduler"
	"github.com/kvwitness/kvwitness/test/live"
)

// server is a program of Debian's packages that serves until the test ends.
type server struct{ url string }

// serve starts one; at stands for its address in its arguments.
func serve(t *testing.T, name string, args ...string) *server {
	t.Helper()
	port, err := live.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	at := "127.0.0.1:" + port
	cmd := exec.Command(tool(t, name), append(args, "--web.listen-address="+at)...)
	cmd.Dir = t.TempDir()
	var notes bytes.Buffer
	cmd.Stdout, cmd.Stderr = &notes, &notes
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { defer close(ended); _ = cmd.Wait() }()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		<-ended
		if t.Failed() {
			t.Logf("%s said:\n%s", name, notes.String())
		}
	})
	s := &server{"http://" + at}
	if err := live.Await(name+" is ready", func() bool {
		select {
		case <-ended:
			t.Fatalf("%s ended:\n%s", name, notes.String())
		default:
		}
		resp, err := http.Get(s.url + "/-/ready")
		if err != nil {
			return false
		}
		defer resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	}); err != nil {
		t.Fatal(err)
	}
	return s
}

// get reads the data of an answer of Prometheus's API.
func (s *server) get(path string, values url.Values, into any) error {
	resp, err := http.Get(s.url + path + "?" + values.Encode())
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	var answer struct {
		Status, Error string
		Data          json.RawMessage
	}
	if err := json.Unmarshal(text, &answer); err != nil || answer.Status != "success" {
		return fmt.Errorf("%s: %s", resp.Status, answer.Error)
	}
	return json.Unmarshal(answer.Data, into)
}

// count is how many series a query has now, and how many of them are a number.
func (s *server) count(expr string) (series, numbers int, err error) {
	var data struct {
		ResultType string
		Result     json.RawMessage
	}
	if err := s.get("/api/v1/query", url.Values{"query": {expr}}, &data); err != nil {
		return 0, 0, err
	}
	if data.ResultType != "vector" {
		return 1, 1, nil
	}
	var all []struct{ Value [2]any }
	if err := json.Unmarshal(data.Result, &all); err != nil {
		return 0, 0, err
	}
	for _, one := range all {
		if one.Value[1] != "NaN" {
			numbers++
		}
	}
	return len(all), numbers, nil
}

// prometheus starts one with the scrape configuration and the rules of this tree,
// each second, for one sidecar on node-a.
func prometheus(t *testing.T, sidecar, alertmanager string) *server {
	t.Helper()
	dir := t.TempDir()
	text := read(t, root+"/deploy/prometheus/prometheus.yml")
	for old, now := range map[string]string{
		"_interval: 15s": "_interval: 1s", "alertmanager:9093": strings.TrimPrefix(alertmanager, "http://"),
		"rules/": absolute(t, root+"/dashboards/rules") + "/",
	} {
		if !strings.Contains(text, old) {
			t.Fatalf("deploy/prometheus/prometheus.yml has no %s", old)
		}
		text = strings.ReplaceAll(text, old, now)
	}
	targets := strings.NewReplacer("node-a.example:9464", strings.TrimPrefix(sidecar, "http://"), "cluster: example", "cluster: test", "example-70b", "induction").
		Replace(read(t, root+"/deploy/prometheus/targets.yml"))
	write(t, filepath.Join(dir, "prometheus.yml"), text)
	write(t, filepath.Join(dir, "targets.yml"), targets)
	return serve(t, "prometheus", "--config.file="+filepath.Join(dir, "prometheus.yml"), "--storage.tsdb.path="+filepath.Join(dir, "data"), "--enable-feature=exemplar-storage")
}

func absolute(t *testing.T, path string) string {
	t.Helper()
	path, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// exercise starts the engines of a drill and a sidecar before them.
func exercise(t *testing.T, drill scheduler.Drill, args ...string) (*live.Exercise, *live.Cluster, *live.Sidecar) {
	t.Helper()
	for i := range live.Exercises {
		e := &live.Exercises[i]
		if e.Drill != drill {
			continue
		}
		dir, err := live.ShortDir()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.RemoveAll(dir) })
		c, err := e.Start(t.Context(), dir, true)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		key := filepath.Join(t.TempDir(), "key")
		write(t, key, "key-a")
		s, err := live.StartSidecar(bin(t, "kvwitness"), c.Engines(), append(args, "--engine-key-file", key)...)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Kill)
		return e, c, s
	}
	t.Fatalf("no exercise for %s", drill)
	return nil, nil, nil
}

// scraped waits until Prometheus has scraped the sidecar a few times more.
func scraped(t *testing.T, p *server, times int) {
	t.Helper()
	seconds := func() (n int) {
		_, n, err := p.count(fmt.Sprintf(`sum_over_time(up{job="kvwitness"}[%ds]) >= %d`, 2*times+1, times))
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	time.Sleep(time.Duration(times) * time.Second)
	if err := live.Await("the sidecar is scraped", func() bool { return seconds() == 1 }); err != nil {
		t.Fatal(err)
	}
}
