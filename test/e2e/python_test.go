package e2e

import (
	"bufio"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// pyzmq is what the interoperability tests are held against, pinned.
const pyzmq = "pyzmq==27.3.0"

// sglangPeer is a Python program that is one half of a pair.
type sglangPeer struct {
	t     *testing.T
	in    io.Writer
	lines *bufio.Reader
}

// interpreter makes a Python environment with pyzmq, once, in the cache folder.
func interpreter(t *testing.T) string {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	venv := filepath.Join(cache, "kvwitness", "e2e", pyzmq)
	python, done := filepath.Join(venv, "bin", "python"), filepath.Join(venv, "complete")
	if _, err := os.Stat(done); err == nil {
		return python
	}
	for _, step := range [][]string{{"python3", "-m", "venv", "--clear", venv}, {python, "-m", "pip", "install", "--quiet", pyzmq}} {
		if out, err := exec.CommandContext(t.Context(), step[0], step[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s\nthis test needs python3 with venv (Debian: python3-venv) and a package index that pip can reach", step, err, out)
		}
	}
	if err := os.WriteFile(done, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	return python
}

func newSGLangPeer(t *testing.T) *sglangPeer {
	t.Helper()
	cmd := exec.Command(interpreter(t), "-u", filepath.Join("testdata", "sglang_peer.py"))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return &sglangPeer{t, in, bufio.NewReader(out)}
}

// reply is what the program may answer.
type reply struct {
	Control, Bootstrap string
	Frames             []string // hex
	Writes             [][2]uint64
}

func (p *sglangPeer) do(what string, with map[string]any) (r reply) {
	p.t.Helper()
	line := map[string]any{"do": what}
	for k, v := range with {
		line[k] = v
	}
	raw, err := json.Marshal(line)
	if err != nil {
		p.t.Fatal(err)
	}
	if _, err := p.in.Write(append(raw, '\n')); err != nil {
		p.t.Fatal(err)
	}
	answer, err := p.lines.ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(answer, &r)
	}
	if err != nil {
		p.t.Fatalf("%s: %v", what, err)
	}
	return r
}
