package couple

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"
)

// patience is how long an answer may take: an emulated machine on a busy one takes
// long.
const patience = 15 * time.Minute

// Half is a program that reads a JSON object a line and answers each with one.
type Half struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines chan string
	notes bytes.Buffer
}

// Answer is what it answers.
type Answer struct {
	Code    int // 0: it was done
	Address uint64
	Session string
	Port    int
	Frames  int
}

// Start starts a program of test/witness/programs with a Python that has what
// messages.py imports; env is added to the environment.
func Start(python string, env []string, args ...string) (*Half, error) {
	h := &Half{lines: make(chan string, 16)}
	h.cmd = exec.Command(python, append([]string{"-u", "-B"}, args...)...)
	h.cmd.Env = append(os.Environ(), env...)
	h.cmd.Stderr = &h.notes
	out, err := h.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if h.in, err = h.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if err := h.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(h.lines)
		for in := bufio.NewScanner(out); in.Scan(); {
			if text, ok := strings.CutPrefix(in.Text(), "answer "); ok {
				h.lines <- text
			}
		}
	}()
	return h, nil
}

// PID is its process.
func (h *Half) PID() int { return h.cmd.Process.Pid }

// End ends it at once.
func (h *Half) End() {
	_ = h.in.Close()
	_ = h.cmd.Process.Kill()
	_ = h.cmd.Wait() // it was killed
}

// Do has it do something; an answer that it was not done is an error.
func (h *Half) Do(op string, fields map[string]any) (a Answer, err error) {
	request := map[string]any{"op": op}
	for key, value := range fields {
		request[key] = value
	}
	line, err := json.Marshal(request)
	if err != nil {
		return a, err
	}
	if _, err := h.in.Write(append(line, '\n')); err != nil {
		return a, err
	}
	select {
	case text, ok := <-h.lines:
		if !ok {
			_ = h.cmd.Wait() // what it said counts
			return a, fmt.Errorf("the program ended at %s\n%s", line, &h.notes)
		}
		if err := json.Unmarshal([]byte(text), &a); err != nil {
			return a, fmt.Errorf("read the answer to %s: %w", line, err)
		}
	case <-time.After(patience):
		return a, fmt.Errorf("no answer to %s", line)
	}
	if a.Code != 0 {
		return a, fmt.Errorf("%s ends with code %d", line, a.Code)
	}
	return a, nil
}

// Frames are a message as the programs take it: hexadecimal texts.
func Frames(message [][]byte) map[string]any {
	out := make([]string, len(message))
	for i, f := range message {
		out[i] = hex.EncodeToString(f)
	}
	return map[string]any{"frames": out}
}
