//go:build peers

package engines

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kvwitness/kvwitness/test/live"
)

const (
	// startLimit is how long vLLM may take to serve: under a minute on two idle cores,
	// most of an hour where others have them.
	startLimit = time.Hour
	// blockTokens and contextTokens are what the server is told.
	blockTokens, contextTokens = 32, 2048
	// served is the name of the model.
	served = "smollm2"
	// named is the name of the engine to the sidecar, and that of its plugin's stream.
	named = "vllm-0"
)

// keys are those of two tenants.
var keys = []string{"key-alpha", "key-beta"}

// Made once: the commands, the interpreter that has vLLM, and the model's folder.
var witness, python, model string

func TestMain(m *testing.M) { os.Exit(prepared(m)) }

func prepared(m *testing.M) int {
	dir, err := os.MkdirTemp("", "kve")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	ready := exec.Command("./ready.sh")
	ready.Stderr = os.Stderr
	out, err := ready.Output()
	if err != nil {
		fmt.Fprintln(os.Stderr, "ready.sh:", err)
		return 1
	}
	if n, err := fmt.Sscan(string(out), &python, &model); n != 2 {
		panic(fmt.Sprintf("ready.sh said %q: %v", out, err))
	}
	if witness, err = live.Build(context.Background(), "../..", dir, "kvwitness"); err != nil {
		panic(err)
	}
	return m.Run()
}

// server is a running vLLM.
type server struct {
	url, log       string
	events, replay string // of its KV events
	dir            string // of its plugin's stream
	keyFiles       []string
}

func port(t *testing.T) string {
	t.Helper()
	p, err := live.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// serve starts a vLLM and waits until it serves.
func serve(t *testing.T) *server {
	t.Helper()
	dir, err := live.ShortDir()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	web, events, replay := port(t), port(t), port(t)
	s := &server{
		url: "http://127.0.0.1:" + web, log: filepath.Join(t.TempDir(), "vllm.log"), dir: dir,
		events: "tcp://127.0.0.1:" + events, replay: "tcp://127.0.0.1:" + replay,
	}
	for i, key := range keys {
		file := filepath.Join(dir, fmt.Sprint("key", i))
		if err := os.WriteFile(file, []byte(key), 0o600); err != nil {
			t.Fatal(err)
		}
		s.keyFiles = append(s.keyFiles, file)
	}
	log, err := os.Create(s.log)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	args := []string{
		"-m", "vllm.entrypoints.openai.api_server", "--model", model, "--served-model-name", served, "--host", "127.0.0.1", "--port", web,
		"--dtype", "float32", "--enforce-eager", "--max-model-len", fmt.Sprint(contextTokens), "--max-num-seqs", "4",
		"--block-size", fmt.Sprint(blockTokens), "--num-gpu-blocks-override", fmt.Sprint(blocks), "--enable-prompt-tokens-details",
		// It binds where there is a *; else it connects.
		"--kv-events-config", `{"enable_kv_cache_events":true,"publisher":"zmq","endpoint":"tcp://*:` + events + `","replay_endpoint":"tcp://*:` + replay + `"}`,
		"--api-key",
	}
	cmd := exec.Command(python, append(args, keys...)...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(),
		"HF_HUB_OFFLINE=1", "VLLM_NO_USAGE_STATS=1", "DO_NOT_TRACK=1", "VLLM_HOST_IP=127.0.0.1",
		"VLLM_CPU_KVCACHE_SPACE=1", "VLLM_CPU_OMP_THREADS_BIND=nobind", "OMP_NUM_THREADS=1",
		"KVWITNESS_INSTANCE="+named, "KVWITNESS_DIR="+dir,
	)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // it has children
	begun := time.Now()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }()
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		<-ended
	})
	err = live.AwaitFor(startLimit, "vLLM serves", func() bool {
		select {
		case <-ended:
			return true
		case <-time.After(time.Second):
		}
		resp, err := http.Get(s.url + "/health")
		if err != nil {
			return false
		}
		_ = resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
	select {
	case <-ended:
		err = fmt.Errorf("vLLM ended")
	default:
	}
	if err != nil {
		t.Fatalf("%v:\n%s", err, s.tail())
	}
	t.Logf("vLLM serves after %s", time.Since(begun).Round(time.Second))
	return s
}

// tail is the end of the server's log.
func (s *server) tail() string {
	log, _ := os.ReadFile(s.log)
	lines := strings.Split(string(log), "\n")
	return strings.Join(lines[max(0, len(lines)-40):], "\n")
}

// kvwitness runs the command, and returns what it wrote and its exit status.
func kvwitness(t *testing.T, args ...string) (out []byte, status int) {
	t.Helper()
	cmd := exec.Command(witness, args...)
	var notes strings.Builder
	cmd.Stderr = &notes
	out, err := cmd.Output()
	if _, exited := err.(*exec.ExitError); err != nil && !exited {
		t.Fatal(err)
	}
	t.Logf("kvwitness %s: status %d\n%s%s", strings.Join(args, " "), cmd.ProcessState.ExitCode(), out, notes.String())
	return out, cmd.ProcessState.ExitCode()
}
