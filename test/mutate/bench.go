package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// patience is the longest that one step of one mutant may take: a mutant may
// well go round for ever.
const patience = 5 * time.Minute

// testTimeout is what go test is told: less, so that it can say which test hung.
const testTimeout = 2 * time.Minute

// outcome is what became of a mutant.
type outcome string

const (
	killed   outcome = "killed"
	survived outcome = "SURVIVED"
	failed   outcome = "ERROR" // it could not be judged
)

// result is what is reported of a mutant.
type result struct {
	Mutant   string  `json:"mutant"`
	Rule     string  `json:"rule"`
	File     string  `json:"file"` // from the module's root
	Off      string  `json:"off"`  // what was switched off
	Outcome  outcome `json:"outcome"`
	KilledBy string  `json:"killed_by,omitempty"` // the first test that failed
	Error    string  `json:"error,omitempty"`
	Said     string  `json:"said,omitempty"` // by the test that failed

	edit mutant
}

// bench runs tests against a module and its mutants.
type bench struct {
	root    string
	scratch string   // for mutated files and overlays
	tests   []string // packages, in the order in which they are asked
}

// newBench asks first what says most about a rule and takes least time; the
// simulation, with its fixed seeds, only of what is left.
func newBench(root, scratch string, sim bool) *bench {
	b := &bench{root: root, scratch: scratch, tests: []string{"./test/traces", "./test/mutate/traces", "./sidecar/ledger"}}
	if sim {
		b.tests = append(b.tests, "./test/sim")
	}
	return b
}

// moduleRoot is the folder of the module in which the command was started.
func moduleRoot(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("asking go for the module: %w", err)
	}
	mod := strings.TrimSpace(string(out))
	if mod == "" || mod == os.DevNull {
		return "", errors.New("no go.mod here; run it inside the module")
	}
	return filepath.Dir(mod), nil
}

// baseline wants everything green without a mutant: a test that fails anyway
// notices nothing.
func (b *bench) baseline(ctx context.Context) error {
	kill, err := b.attack(ctx, nil)
	if err != nil {
		return fmt.Errorf("testing the ledger as it is: %w", err)
	}
	if kill.by != "" {
		return fmt.Errorf("the ledger as it is fails %s; mend that first:\n%s", kill.by, kill.said)
	}
	return nil
}

// all judges mutants, so many side by side, and returns them in their order.
// told is called after each, never twice at once.
func (b *bench) all(ctx context.Context, chosen []mutant, jobs int, told func(done int, r result)) []result {
	results := make([]result, len(chosen))
	var wg sync.WaitGroup
	var mu sync.Mutex
	done := 0
	slots := make(chan struct{}, jobs)
	for i := range chosen {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			r := b.one(ctx, &chosen[i], filepath.Join(b.scratch, fmt.Sprint(i)))
			mu.Lock()
			defer mu.Unlock()
			done++
			results[i] = r
			told(done, r)
		})
	}
	wg.Wait()
	return results
}

// one judges a mutant in a folder of its own.
func (b *bench) one(ctx context.Context, m *mutant, dir string) result {
	r := result{Mutant: m.name(), Rule: m.rule, File: m.path(), Off: m.off, Outcome: survived, edit: *m}
	kill, err := b.try(ctx, m, dir)
	switch {
	case err != nil:
		r.Outcome, r.Error = failed, err.Error()
	case kill.by != "":
		r.Outcome, r.KilledBy, r.Said = killed, kill.by, kill.said
	}
	return r
}

func (b *bench) try(ctx context.Context, m *mutant, dir string) (kill, error) {
	if err := ctx.Err(); err != nil {
		return kill{}, err
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		return kill{}, fmt.Errorf("making a folder for %s: %w", m.name(), err)
	}
	defer os.RemoveAll(dir)
	overlay, err := b.overlay(m, dir)
	if err != nil {
		return kill{}, err
	}
	return b.attack(ctx, []string{"-overlay", overlay})
}

// overlay writes the mutated file, and the list that puts it in place of the
// real one, which stays as it is.
func (b *bench) overlay(m *mutant, dir string) (string, error) {
	text, err := m.mutate(b.root)
	if err != nil {
		return "", err
	}
	file := filepath.Join(dir, m.file)
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		return "", fmt.Errorf("writing the mutated %s: %w", m.file, err)
	}
	list, err := json.Marshal(map[string]map[string]string{"Replace": {filepath.Join(b.root, m.path()): file}})
	if err != nil {
		return "", fmt.Errorf("listing the mutated %s: %w", m.file, err)
	}
	path := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(path, list, 0o644); err != nil {
		return "", fmt.Errorf("writing the overlay of %s: %w", m.name(), err)
	}
	return path, nil
}

// attack runs the tests, one package after the other, until one fails. with are
// flags for building.
func (b *bench) attack(ctx context.Context, with []string) (kill, error) {
	for _, pkg := range b.tests {
		args := append([]string{"test", "-json", "-failfast", "-vet=off", "-timeout", testTimeout.String()}, with...)
		out, err := b.command(ctx, "go", append(args, pkg)...)
		if err != nil {
			return kill{}, err
		}
		if k, err := readTests(bytes.NewReader(out)); err != nil || k.by != "" {
			return k, err
		}
	}
	return kill{}, nil
}

// command runs a program in the module and returns what it printed. That it
// ended with a status is no error: what it printed says why.
func (b *bench) command(ctx context.Context, name string, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = b.root
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	out, err := cmd.CombinedOutput()
	if exit := (*exec.ExitError)(nil); err == nil || errors.As(err, &exit) && ctx.Err() == nil {
		return out, nil
	}
	return out, fmt.Errorf("running %s %s: %w", name, strings.Join(args, " "), errors.Join(err, ctx.Err()))
}
