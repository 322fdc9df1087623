package fakecuda

import (
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kvwitness/kvwitness/test/live"
)

// root is the tree's.
const root = "../.."

// environment builds libcuda.so.1 with the headers of CUDA 12 or 13 and returns what a
// Go build and its program need to find both.
func environment(t *testing.T, headers string) []string {
	t.Helper()
	flags := strings.TrimSpace(command(t, nil, "../../kernels/ready.sh", headers))
	dir, err := filepath.Abs(root + "/.cache/cuda/fake" + headers) // always there: the build's cache depends on it
	if err != nil {
		t.Fatal(err)
	}
	command(t, nil, "./build.sh", dir, headers)
	return append(os.Environ(), "CGO_ENABLED=1", "CGO_CFLAGS="+flags, "CGO_LDFLAGS=-L"+dir, "LD_LIBRARY_PATH="+dir)
}

// commands builds kvwitness, kvengine and, beside it, kvengine-cuda, where they are not
// built yet, and returns their folder.
func commands(t *testing.T, env []string) string {
	t.Helper()
	dir, err := filepath.Abs(root + "/.cache/cuda/bin")
	if err != nil {
		t.Fatal(err)
	}
	command(t, env, "go", "build", "-o", dir+"/", root+"/cmd/kvwitness", root+"/cmd/kvengine")
	command(t, env, "go", "build", "-tags", "cuda", "-o", filepath.Join(dir, "kvengine-cuda"), root+"/cmd/kvengine")
	return dir
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

// pageReads is how many page reads must raise no alarm: 10 million take ten minutes.
var pageReads = flag.Int("page-reads", 20_000, "page reads of the test for false alarms")

// Promise: the CUDA backend and every kernel keep their promises when the kernels
// run on a CPU: the tests of engine/backend/cuda, with exact moments.
func TestTheCUDABackendKeepsItsPromises(t *testing.T) {
	env := environment(t, "12")
	program := filepath.Join(t.TempDir(), "cuda.test")
	command(t, env, "go", "test", "-c", "-tags", "cuda,fakecuda", "-o", program, root+"/engine/backend/cuda")
	t.Log(command(t, env, program, "-test.v", "-test.timeout=1h", fmt.Sprintf("-page-reads=%d", *pageReads)))
}

// Promise: the headers of CUDA 13, in which five functions that gorgonia.org/cu calls
// have other parameters, fit as those of CUDA 12 do.
func TestTheHeadersOfCUDA13Fit(t *testing.T) {
	env, dir := environment(t, "13"), t.TempDir()
	program, engine := filepath.Join(dir, "cuda.test"), filepath.Join(dir, "kvengine-cuda")
	command(t, env, "go", "test", "-c", "-tags", "cuda,fakecuda", "-o", program, root+"/engine/backend/cuda")
	t.Log(command(t, env, program, "-test.v", "-test.run", "AgreeWithFloat64|Handoff|Incident|Scrub"))
	command(t, env, "go", "build", "-tags", "cuda", "-o", engine, root+"/cmd/kvengine")
	if name := command(t, env, engine, "gpu"); !strings.Contains(name, "driver for CUDA 13.0") {
		t.Errorf("the GPU is %q", name)
	}
}

// Promise: kvengine-cuda names its GPU. Where the driver has none, where its library is
// missing, or where the probe dies of a signal, kvengine, which asks in a process of its
// own, goes on: told to use the GPU it says why it does not start, told to choose it
// says why and serves from the memory of the CPU.
func TestTheProbeCannotKillTheEngine(t *testing.T) {
	env := environment(t, "12")
	dir := commands(t, env)
	engine, onGPU := filepath.Join(dir, "kvengine"), filepath.Join(dir, "kvengine-cuda")
	if name := command(t, env, onGPU, "gpu"); !strings.Contains(name, "fakecuda (a CPU), compute capability 9.0") {
		t.Errorf("the GPU is %q", name)
	}
	for _, c := range []struct{ name, set, says string }{
		{"no device", "FAKECUDA_NO_DEVICE=1", "exit status 1"},
		{"no library", "LD_LIBRARY_PATH=", "libcuda.so.1"},
		{"a driver that crashes", "FAKECUDA_CRASH=1", "signal: segmentation fault"},
	} {
		t.Run(c.name, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), engine, "serve", "--backend", "cuda", "--port", "0")
			cmd.Env = append(slices.Clone(env), c.set)
			out, err := cmd.CombinedOutput()
			if err == nil || !strings.Contains(string(out), "no CUDA backend: kvengine-cuda gpu: ") || !strings.Contains(string(out), c.says) {
				t.Errorf("told to use it: %v\n%s", err, out)
			}
			for _, e := range append(slices.Clone(env), c.set) {
				key, value, _ := strings.Cut(e, "=")
				t.Setenv(key, value)
			}
			p, err := live.Start(engine, "serving", "serve", "--backend", "auto", "--port", "0", "--events", "off")
			if err != nil {
				t.Fatal(err)
			}
			defer p.Kill()
			status, raw := ask(t, p.Said["url"], "", "hello hello hello ", 4, false)
			if notes := p.Notes(); status != http.StatusOK || !strings.Contains(notes, "pages lie in the memory of the CPU") || !strings.Contains(notes, c.says) {
				t.Errorf("told to choose: %d %s\n%s", status, raw, notes)
			}
		})
	}
}
