package witness

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// installLimit is how long making an environment may take: it downloads.
const installLimit = 5 * time.Minute

// environment is a virtual environment with what a requirements file of
// test/peers pins; the two folders of tests share it.
func environment(t testing.TB, requirements string) (venv string) {
	t.Helper()
	requirements = filepath.Join("..", "peers", requirements)
	pinned, err := os.ReadFile(requirements)
	must(t, err)
	cache, err := os.UserCacheDir()
	must(t, err)
	sum := sha256.Sum256(pinned)
	dir := filepath.Join(cache, "kvwitness", "peers", hex.EncodeToString(sum[:8]))
	must(t, os.MkdirAll(dir, 0o755))
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o644)
	must(t, err)
	defer lock.Close()
	must(t, syscall.Flock(int(lock.Fd()), syscall.LOCK_EX))
	venv = filepath.Join(dir, "venv")
	if _, err := os.Stat(filepath.Join(dir, "complete")); err == nil {
		return venv
	}
	ctx, cancel := context.WithTimeout(context.Background(), installLimit)
	defer cancel()
	for _, step := range [][]string{
		{"python3", "-m", "venv", "--clear", venv},
		{filepath.Join(venv, "bin", "python"), "-m", "pip", "install", "--quiet", "-r", requirements},
	} {
		if out, err := exec.CommandContext(ctx, step[0], step[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s\nsee test/peers/ready.sh for what the machine needs", step, err, out)
		}
	}
	must(t, os.WriteFile(filepath.Join(dir, "complete"), nil, 0o644))
	return venv
}

// half is one process of a pair.
type half struct {
	t     testing.TB
	in    io.WriteCloser
	lines chan string
	errs  bytes.Buffer
	cmd   *exec.Cmd
}

// startHalf starts one that moves pages with Mooncake.
func startHalf(t *testing.T) *half {
	t.Helper()
	mooncake := environment(t, "requirements-mooncake.txt")
	packages, err := filepath.Glob(filepath.Join(mooncake, "lib", "python3*", "site-packages"))
	if err != nil || len(packages) != 1 {
		t.Fatalf("packages in %s: %q, %v", mooncake, packages, err)
	}
	return startProgram(t, []string{"PYTHONPATH=" + packages[0]}, "pd_peer.py")
}

// startProgram starts one of the programs, with messages in its environment.
func startProgram(t testing.TB, env []string, args ...string) *half {
	t.Helper()
	messages := environment(t, "requirements.txt")
	h := &half{t: t, lines: make(chan string, 16)}
	args[0] = filepath.Join("programs", args[0])
	h.cmd = exec.Command(filepath.Join(messages, "bin", "python"), append([]string{"-u", "-B"}, args...)...)
	h.cmd.Env = append(os.Environ(), env...)
	h.cmd.Stderr = &h.errs
	out, err := h.cmd.StdoutPipe()
	must(t, err)
	h.in, err = h.cmd.StdinPipe()
	must(t, err)
	must(t, h.cmd.Start())
	go func() {
		defer close(h.lines)
		for in := bufio.NewScanner(out); in.Scan(); {
			if text, ok := strings.CutPrefix(in.Text(), "answer "); ok {
				h.lines <- text
			}
		}
	}()
	t.Cleanup(func() {
		_ = h.in.Close()
		_ = h.cmd.Process.Kill()
		_ = h.cmd.Wait()
	})
	return h
}

type answer struct {
	Code    int
	Address uint64
	Session string
	Port    int
	Frames  int
}

func (h *half) do(op string, fields map[string]any) (a answer) {
	h.t.Helper()
	request := map[string]any{"op": op}
	for key, value := range fields {
		request[key] = value
	}
	line, err := json.Marshal(request)
	must(h.t, err)
	_, err = h.in.Write(append(line, '\n'))
	must(h.t, err)
	select {
	case text, ok := <-h.lines:
		if !ok {
			_ = h.cmd.Wait()
			h.t.Fatalf("the program ended at %s\n%s", line, &h.errs)
		}
		must(h.t, json.Unmarshal([]byte(text), &a))
	case <-time.After(patience):
		h.t.Fatalf("no answer to %s", line)
	}
	if a.Code != 0 {
		h.t.Fatalf("%s ends with code %d", line, a.Code)
	}
	return a
}

// frames are a message as hexadecimal texts.
func frames(message [][]byte) map[string]any {
	out := make([]string, len(message))
	for i, f := range message {
		out[i] = hex.EncodeToString(f)
	}
	return map[string]any{"frames": out}
}
