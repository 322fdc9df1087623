package demo

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// endTimeout is how long the sidecar may take to end, as it promises.
const endTimeout = 5 * time.Second

// maxNotes is how much of what a process logs is kept, for an error.
const maxNotes = 16 << 10

// process is one that was started.
type process struct {
	name  string
	cmd   *exec.Cmd
	ended chan struct{}
	err   error // once ended

	mu    sync.Mutex
	notes []byte
	said  map[string]string // of the line that says that it serves
	ready chan struct{}
}

// start runs a command that logs where it serves, in a line with msg=word.
func start(name, path, word string, args ...string) (*process, error) {
	p := &process{name: name, cmd: exec.Command(path, args...), ended: make(chan struct{}), ready: make(chan struct{})}
	// A demo that is killed leaves nothing behind: the kernel ends its children.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	p.cmd.Env = clean(os.Environ())
	p.cmd.Stdout = io.Discard
	stderr, err := p.cmd.StderrPipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	go func() {
		p.read(stderr, "msg="+word+" ")
		p.err = p.cmd.Wait()
		close(p.ended)
	}()
	return p, nil
}

// clean is the environment without settings of engines and sidecar: the demo's own
// hold.
func clean(env []string) (out []string) {
	for _, entry := range env {
		if !strings.HasPrefix(entry, "KVENGINE_") && !strings.HasPrefix(entry, "KVWITNESS_") {
			out = append(out, entry)
		}
	}
	return out
}

// read keeps what the process logs, and what it says when it serves.
func (p *process) read(in io.Reader, mark string) {
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		line := lines.Text()
		p.mu.Lock()
		if len(p.notes) < maxNotes {
			p.notes = append(append(p.notes, line...), '\n')
		}
		if p.said == nil && strings.Contains(line, mark) {
			p.said = fields(line)
			close(p.ready)
		}
		p.mu.Unlock()
	}
	_, _ = io.Copy(io.Discard, in) // a line that is too long must not stop the process
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

// serves waits until the process says where.
func (p *process) serves(ctx context.Context) (map[string]string, error) {
	select {
	case <-p.ready:
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.said, nil
	case <-p.ended:
		return nil, fmt.Errorf("%s ended before it served: %w", p.name, p.why())
	case <-ctx.Done():
		return nil, fmt.Errorf("%s does not serve: %w", p.name, p.why())
	}
}

// why is what the process logged.
func (p *process) why() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return errors.New(strings.TrimSpace(string(p.notes)))
}

// stop ends the process gracefully, and hard if that takes too long.
func (p *process) stop() error {
	select {
	case <-p.ended:
		return fmt.Errorf("%s ended by itself: %w", p.name, p.why())
	default:
	}
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // it may have ended by now
	select {
	case <-p.ended:
		if p.err != nil {
			return fmt.Errorf("%s ended badly: %w: %w", p.name, p.err, p.why())
		}
		return nil
	case <-time.After(endTimeout):
		p.kill()
		return fmt.Errorf("%s did not end within %s", p.name, endTimeout)
	}
}

// kill ends the process at once.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.ended
}

// Engine finds the engine's command: beside this one, or on the path.
func Engine() (string, error) {
	self, err := os.Executable()
	if err == nil {
		beside := filepath.Join(filepath.Dir(self), "kvengine")
		if info, err := os.Stat(beside); err == nil && info.Mode().IsRegular() {
			return beside, nil
		}
	}
	path, err := exec.LookPath("kvengine")
	if err != nil {
		return "", fmt.Errorf("find kvengine beside kvwitness or on the path: %w; make build makes both", err)
	}
	return path, nil
}
