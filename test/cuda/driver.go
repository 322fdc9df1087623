package cuda

import (
	"embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

//go:embed mock/libcuda.c mock/caller.c
var sources embed.FS

// Library is the name of the library, and Caller that of the program, in the folder of
// Build.
const (
	Library = "libcuda.so.1"
	Caller  = "cuda-caller"
)

// Build compiles both into dir; the program finds the library beside it.
func Build(dir string) error {
	for _, b := range []struct {
		source, to string
		flags      []string
	}{
		{"libcuda.c", Library, []string{"-shared", "-fPIC", "-O2", "-Wl,-soname," + Library}},
		{"caller.c", Caller, []string{"-O1", "-Wl,-rpath,$ORIGIN"}},
	} {
		text, err := sources.ReadFile("mock/" + b.source)
		if err != nil {
			return err
		}
		from := filepath.Join(dir, b.source)
		if err := os.WriteFile(from, text, 0o600); err != nil {
			return fmt.Errorf("build the stand-in: %w", err)
		}
		args := append(b.flags, "-Wall", "-Werror", "-pthread", "-o", filepath.Join(dir, b.to), from, "-ldl")
		if out, err := exec.Command("gcc", args...).CombinedOutput(); err != nil {
			return fmt.Errorf("build the stand-in: %w: %s", err, out)
		}
	}
	return nil
}
