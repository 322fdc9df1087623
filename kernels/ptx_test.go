package kernels

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Promise: each GPU from compute capability 8.0 on gets a module, and NVIDIA's
// assemblers, of CUDA 12 and of 13, take it for that GPU without a register spilled.
func TestNVIDIAsAssemblersTakeThePTX(t *testing.T) {
	type gpu struct{ major, minor int }
	for cuda, gpus := range map[string][]gpu{"12": {{8, 0}, {9, 0}}, "13": {{8, 0}, {9, 0}, {12, 0}}} {
		out, err := exec.CommandContext(t.Context(), "./ready.sh", "ptxas", cuda).Output()
		if err != nil {
			t.Fatalf("ready.sh ptxas %s: %v: run it by hand to see why", cuda, err)
		}
		for _, g := range gpus {
			ptx, err := PTX(g.major, g.minor)
			if err != nil {
				t.Fatal(err)
			}
			arch := fmt.Sprintf("sm_%d%d", g.major, g.minor)
			source := filepath.Join(t.TempDir(), "kernels.ptx")
			if err := os.WriteFile(source, []byte(ptx), 0o600); err != nil {
				t.Fatal(err)
			}
			ptxas := exec.CommandContext(t.Context(), strings.TrimSpace(string(out)), "-v", "-arch="+arch, source, "-o", filepath.Join(t.TempDir(), "kernels.cubin"))
			said, err := ptxas.CombinedOutput()
			kernels, whole := strings.Count(ptx, ".visible .entry"), strings.Count(string(said), " 0 bytes spill stores, 0 bytes spill loads")
			if err != nil || kernels != whole || kernels == 0 {
				t.Errorf("CUDA %s, %s: %v, %d of %d kernels without spills\n%s", cuda, arch, err, whole, kernels, said)
			}
		}
	}
}

// Promise: a GPU that is too old is refused by what it is.
func TestAnOldGPUIsRefused(t *testing.T) {
	if _, err := PTX(7, 5); !errors.Is(err, ErrOldGPU) || !strings.Contains(err.Error(), "7.5") {
		t.Error(err)
	}
}

// Promise: the tag check of a page takes the instructions that docs/GPU.md tells: 24
// before the page is read, with the branch of a page that fails, and 23 after.
func TestTheTagCheckIsSoManyInstructions(t *testing.T) {
	ptx, err := PTX(9, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, kernel, _ := strings.Cut(ptx, ".visible .entry kv_attention_bfloat16_128(")
	lines := strings.Split(kernel, "\n")
	find := func(from, step int, word string) int {
		for i := from; i >= 0 && i < len(lines); i += step {
			if strings.Contains(lines[i], word) {
				return i
			}
		}
		t.Fatalf("no %s from line %d of the kernel", word, from)
		return 0
	}
	count := func(from, to int) (n int) {
		for _, line := range lines[from : to+1] {
			if text := strings.TrimSpace(line); strings.HasSuffix(text, ";") && !strings.HasPrefix(text, ".") {
				n++
			}
		}
		return n
	}
	acquire, fence := find(0, 1, "ld.acquire.sys"), find(0, 1, "fence.acq_rel.sys")
	before := count(find(acquire, -1, "mov.u64"), find(acquire, 1, "bar.warp.sync"))
	after := count(find(fence, -1, "bar.warp.sync")-1, find(fence, 1, "and.pred")+1)
	if before != 24 || after != 23 {
		t.Errorf("%d instructions before the page, %d after it", before, after)
	}
}
