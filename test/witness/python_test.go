package witness

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/kvwitness/kvwitness/test/witness/couple"
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

// half is one process of a pair. What it does not do fails the test.
type half struct {
	*couple.Half
	t testing.TB
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
	python := filepath.Join(environment(t, "requirements.txt"), "bin", "python")
	args[0] = filepath.Join("programs", args[0])
	h, err := couple.Start(python, env, args...)
	must(t, err)
	t.Cleanup(h.End)
	return &half{h, t}
}

func (h *half) do(op string, fields map[string]any) couple.Answer {
	h.t.Helper()
	a, err := h.Do(op, fields)
	must(h.t, err)
	return a
}
