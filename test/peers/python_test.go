package peers

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"
)

const (
	// installLimit is how long making an environment may take: it downloads.
	installLimit = 5 * time.Minute
	// answerLimit is how long a program may take to answer one request: one that
	// computes a model takes seconds, on a machine with other things to do longer.
	answerLimit = 3 * time.Minute
)

// python returns the interpreter of an environment that has what the named
// requirements file pins. It is made once and kept in the cache folder; its
// name is the digest of the file, so that a change makes a new one.
func python(t *testing.T, requirements string) string {
	t.Helper()
	pinned, err := os.ReadFile(requirements)
	if err != nil {
		t.Fatal(err)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatalf("find the cache folder: %v (set XDG_CACHE_HOME)", err)
	}
	sum := sha256.Sum256(pinned)
	dir := filepath.Join(cache, "kvwitness", "peers", hex.EncodeToString(sum[:8]))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	unlock := lockFolder(t, dir)
	defer unlock()
	interpreter := filepath.Join(dir, "venv", "bin", "python")
	done := filepath.Join(dir, "complete")
	if _, err := os.Stat(done); err == nil {
		return interpreter
	}
	install(t, dir, requirements)
	if err := os.WriteFile(done, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	return interpreter
}

func install(t *testing.T, dir, requirements string) {
	t.Helper()
	python3, err := exec.LookPath("python3")
	if err != nil {
		t.Fatal("python3 is missing: install it with its venv module (Debian: apt-get install python3 python3-venv)")
	}
	ctx, cancel := context.WithTimeout(context.Background(), installLimit)
	defer cancel()
	venv := filepath.Join(dir, "venv")
	for _, step := range [][]string{
		{python3, "-m", "venv", "--clear", venv},
		{filepath.Join(venv, "bin", "python"), "-m", "pip", "install", "--quiet", "-r", requirements},
	} {
		out, err := exec.CommandContext(ctx, step[0], step[1:]...).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %v\n%s\nthe tests need python3 with venv (Debian: python3-venv) and a package index that pip can reach", step, err, out)
		}
	}
}

// lockFolder keeps two test processes from making one environment at once.
func lockFolder(t *testing.T, dir string) (unlock func()) {
	t.Helper()
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatalf("lock %s: %v", dir, err)
	}
	return func() { _ = f.Close() }
}

// program is a Python process that answers one line of JSON with one line.
type program struct {
	t     *testing.T
	name  string
	in    io.WriteCloser
	lines chan string
	errs  *lockedBuffer
}

// lockedBuffer collects a process's complaints while the test reads them.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// start runs programs/name with the environment of a requirements file until
// the test ends.
func start(t *testing.T, requirements, name string, env ...string) *program {
	t.Helper()
	cmd := exec.Command(python(t, requirements), "-u", filepath.Join("programs", name))
	cmd.Env = append(os.Environ(), env...)
	p := &program{t: t, name: name, lines: make(chan string), errs: &lockedBuffer{}}
	cmd.Stderr = p.errs
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if p.in, err = cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	gone := make(chan struct{})
	go func() {
		defer close(p.lines)
		lines := bufio.NewReaderSize(out, 1<<20)
		for {
			line, err := lines.ReadString('\n')
			if err != nil {
				return
			}
			select {
			case p.lines <- line:
			case <-gone:
				return
			}
		}
	}()
	t.Cleanup(func() {
		close(gone)
		_ = p.in.Close()
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return p
}

// ask sends a request and decodes the answer into answer, if that is not nil.
func (p *program) ask(request map[string]any, answer any) {
	p.t.Helper()
	if err := p.try(request, answer); err != nil {
		p.t.Fatal(err)
	}
}

func (p *program) try(request map[string]any, answer any) error {
	line, err := json.Marshal(request)
	if err != nil {
		return err
	}
	if _, err := p.in.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("%s: %w\n%s", p.name, err, p.errs)
	}
	for {
		select {
		case got, ok := <-p.lines:
			if !ok {
				return fmt.Errorf("%s ended at %s\n%s", p.name, line, p.errs)
			}
			rest, isAnswer := bytes.CutPrefix([]byte(got), []byte("answer "))
			if !isAnswer {
				continue // what a library prints on its own
			}
			if answer == nil {
				return nil
			}
			numbers := json.NewDecoder(bytes.NewReader(rest))
			numbers.UseNumber() // addresses and rooms have more bits than a float64
			if err := numbers.Decode(answer); err != nil {
				return fmt.Errorf("%s: answer %.200q: %w", p.name, got, err)
			}
			return nil
		case <-time.After(answerLimit):
			return fmt.Errorf("%s gave no answer to %s\n%s", p.name, line, p.errs)
		}
	}
}
