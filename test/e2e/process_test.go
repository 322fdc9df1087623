package e2e

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kvwitness/kvwitness/engine/model"
	"github.com/kvwitness/kvwitness/engine/scheduler"
)

// kvengine is the real command, built once for a test.
type kvengine struct {
	t    *testing.T
	path string
	dir  string
}

func build(t *testing.T) *kvengine {
	t.Helper()
	k := &kvengine{t: t, dir: t.TempDir()}
	k.path = filepath.Join(k.dir, "kvengine")
	out, err := exec.CommandContext(t.Context(), "go", "build", "-o", k.path, "../../cmd/kvengine").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return k
}

// run starts a process and returns what it says it serves, by the keys of its log.
func (k *kvengine) run(args ...string) (p *exec.Cmd, said map[string]string) {
	k.t.Helper()
	p = exec.Command(k.path, args...)
	p.Env = append(os.Environ(), "KVENGINE_LOG_FORMAT=text")
	stderr, err := p.StderrPipe()
	if err != nil {
		k.t.Fatal(err)
	}
	if err := p.Start(); err != nil {
		k.t.Fatal(err)
	}
	k.t.Cleanup(func() { _ = p.Process.Kill(); _ = p.Wait() })
	lines := make(chan map[string]string, 1)
	go func() {
		for in := bufio.NewScanner(stderr); in.Scan(); {
			if strings.Contains(in.Text(), "msg=serving") || strings.Contains(in.Text(), "msg=routing") {
				lines <- fields(in.Text())
			}
		}
	}()
	select {
	case said = <-lines:
		return p, said
	case <-time.After(patience):
		k.t.Fatalf("%v says nothing", args)
		return nil, nil
	}
}

func fields(line string) map[string]string {
	out := map[string]string{}
	for f := range strings.FieldsSeq(line) {
		if key, value, ok := strings.Cut(f, "="); ok {
			out[key] = strings.Trim(value, `"`)
		}
	}
	return out
}

func stop(t *testing.T, p *exec.Cmd) {
	t.Helper()
	if err := p.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := p.Wait(); err != nil {
		t.Errorf("stopped: %v", err)
	}
}

func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if ok() {
			return
		}
	}
	t.Fatalf("not within %v: %s", patience, what)
}

// Promise: three processes answer a chat; one that is killed comes back and is
// found again; a graceful stop ends with status 0.
func TestThreeProcessesAnswerAndOneComesBack(t *testing.T) {
	k := build(t)
	bootstrap := freePort(t)
	prefillArgs := []string{"serve", "--role", "prefill", "--port", freePort(t), "--bootstrap-port", bootstrap, "--control-port", freePort(t), "--events", "off"}
	prefill, p := k.run(prefillArgs...)
	decode, d := k.run("serve", "--role", "decode", "--port", "0", "--prefill", "127.0.0.1:"+bootstrap, "--events-dir", filepath.Join(k.dir, "events"))
	router, r := k.run("router", "--port", "0", "--prefill", p["url"], "--decode", d["url"])
	answers := func() bool {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		body := fmt.Sprintf(`{"prompt":%q,"max_tokens":30}`, story)
		a, err := ask(ctx, r["url"]+"/v1/completions", "", []byte(body))
		if err == nil && a.status == 200 && a.text != string(model.Expect([]byte(story), 30)) {
			t.Fatalf("wrong answer %q", a.text)
		}
		return err == nil && a.status == 200
	}
	eventually(t, "an answer", answers)
	if err := prefill.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = prefill.Wait()
	if answers() {
		t.Fatal("an answer without a prefill")
	}
	prefill, _ = k.run(prefillArgs...)
	eventually(t, "an answer after prefill came back", answers)
	for _, c := range []*exec.Cmd{router, prefill, decode} {
		stop(t, c)
	}
}

// incident starts the three processes of the incident, told by flags alone, and the
// cluster that clients see.
func (k *kvengine) incident(more ...string) *cluster {
	t := k.t
	t.Helper()
	keys := filepath.Join(k.dir, "keys")
	if err := os.WriteFile(keys, []byte("alpha key-a\nbeta key-b\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	bootstrap := freePort(t)
	common := []string{"serve", "--port", "0", "--key-file", keys, "--page-tokens", "64", "--context-tokens", "512", "--events", "off", "--drill", scheduler.RejectedHandoff.String()}
	common = append(common, more...)
	_, p := k.run(append(common, "--role", "prefill", "--pages", "5", "--bootstrap-port", bootstrap)...)
	_, d := k.run(append(common, "--role", "decode", "--pages", "9", "--prefill", "127.0.0.1:"+bootstrap)...)
	_, r := k.run("router", "--port", "0", "--prefill", p["url"], "--decode", d["url"])
	c := &cluster{t: t, url: r["url"]}
	eventually(t, "the router is ready", func() bool {
		resp, err := http.Get(c.url + "/health")
		if err != nil {
			return false
		}
		resp.Body.Close()
		return resp.StatusCode == 200 && c.complete("key-a", "hello", 1).status == 200
	})
	return c
}

// Promise: the incident in real processes, told by a flag alone.
func TestTheIncidentInThreeProcesses(t *testing.T) {
	b, secret := play(t, build(t).incident())
	if b.status != 200 || !strings.Contains(b.text, secret) {
		t.Fatalf("B is answered %d %q, A's secret is %s", b.status, b.text, secret)
	}
}

// Promise: with page tags and no other protection no token of the incident leaves the
// processes, whether the answer is streamed or not, and be it one token long: there is
// an error, and nothing before it, that names the page.
func TestPageTagsAloneLetNoTokenLeaveTheProcesses(t *testing.T) {
	c := build(t).incident("--drill-keep", scheduler.PageTags.String(), "--drill-off", strings.Join(allBut(scheduler.PageTags), ","))
	b, secret := play(t, c)
	answers := []answer{b}
	for _, tokens := range []int{incidentTokens / 2, 1} {
		body := fmt.Sprintf(`{"prompt":%q,"max_tokens":%d,"stream":true}`, strings.Repeat("b", owedTokens), tokens)
		a, err := ask(t.Context(), c.url+"/v1/completions", "key-b", []byte(body))
		if err != nil {
			t.Fatal(err)
		}
		answers = append(answers, a)
	}
	named := regexp.MustCompile(`^\{"error":\{[^{}]*page \d+ \(entry [1-7] of the block table\)[^{}]*"page_tag"[^{}]*\}\}\s*$`)
	for _, a := range answers {
		if a.status != 500 || leaks(a.raw, secret) || !named.MatchString(a.raw) {
			t.Errorf("B is answered %d %q", a.status, a.raw)
		}
	}
}

// allBut are the names of the other protections.
func allBut(but scheduler.Protection) (names []string) {
	for p := range scheduler.NumProtections {
		if p != but {
			names = append(names, p.String())
		}
	}
	return names
}
