package fakecuda

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// root is the tree's.
const root = "../.."

// environment builds libcuda.so.1 and returns what a Go build and its program need
// to find it and cuda.h.
func environment(t *testing.T) []string {
	t.Helper()
	include := strings.TrimSpace(command(t, nil, "../../kernels/ready.sh"))
	dir, err := filepath.Abs(root + "/.cache/cuda/fake") // always there: the build's cache depends on it
	if err != nil {
		t.Fatal(err)
	}
	command(t, nil, "./build.sh", dir)
	return append(os.Environ(), "CGO_ENABLED=1", "CGO_CFLAGS=-I"+include, "CGO_LDFLAGS=-L"+dir, "LD_LIBRARY_PATH="+dir)
}

// command runs a program to its end and returns what it printed.
func command(t *testing.T, env []string, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Env = env
	var complaint strings.Builder
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s%s", name, strings.Join(args, " "), err, out, complaint.String())
	}
	return string(out)
}

// Promise: the CUDA backend and every kernel keep their promises when the kernels
// run on a CPU: the tests of engine/backend/cuda, with exact moments.
func TestTheCUDABackendKeepsItsPromises(t *testing.T) {
	env := environment(t)
	program := filepath.Join(t.TempDir(), "cuda.test")
	command(t, env, "go", "test", "-c", "-tags", "cuda,fakecuda", "-o", program, root+"/engine/backend/cuda")
	t.Log(command(t, env, program, "-test.v"))
}

// Promise: kvengine-cuda names its GPU; where the driver has none it dies of it, and
// kvengine, which asks it in a process of its own, says so and does not.
func TestTheProbeCannotKillTheEngine(t *testing.T) {
	env, dir := environment(t), t.TempDir()
	engine, onGPU := filepath.Join(dir, "kvengine"), filepath.Join(dir, "kvengine-cuda")
	command(t, env, "go", "build", "-o", engine, root+"/cmd/kvengine")
	command(t, env, "go", "build", "-tags", "cuda", "-o", onGPU, root+"/cmd/kvengine")
	if name := command(t, env, onGPU, "gpu"); !strings.Contains(name, "fakecuda (a CPU), compute capability 9.0") {
		t.Errorf("the GPU is %q", name)
	}
	none := append(env, "FAKECUDA_NO_DEVICE=1")
	cmd := exec.CommandContext(t.Context(), engine, "serve", "--backend", "cuda", "--port", "0")
	cmd.Env = none
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "no CUDA backend: kvengine-cuda gpu: exit status 1") {
		t.Errorf("without a device: %v\n%s", err, out)
	}
}
