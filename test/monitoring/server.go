package monitoring

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/kvwitness/kvwitness/test/live"
)

// Tool is the path of a program of Debian's prometheus packages; root is where
// go.mod is.
func Tool(root, name string) (string, error) {
	out, err := exec.Command(filepath.Join(root, "test/monitoring/ready.sh")).Output()
	if exit, ok := err.(*exec.ExitError); ok {
		return "", fmt.Errorf("see to %s: %w: %s", name, err, exit.Stderr)
	}
	if err != nil {
		return "", fmt.Errorf("see to %s: %w", name, err)
	}
	return filepath.Join(strings.TrimSpace(string(out)), name), nil
}

// Server is a running program of these packages.
type Server struct {
	URL string

	cmd   *exec.Cmd
	said  bytes.Buffer
	ended chan struct{}
}

// Serve starts the program at path in a folder, and waits until it is ready.
func Serve(path, dir string, args ...string) (*Server, error) {
	port, err := live.FreePort()
	if err != nil {
		return nil, err
	}
	at := "127.0.0.1:" + port
	s := &Server{URL: "http://" + at, ended: make(chan struct{})}
	s.cmd = exec.Command(path, append(args, "--web.listen-address="+at)...)
	s.cmd.Dir, s.cmd.Stdout, s.cmd.Stderr = dir, &s.said, &s.said
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	go func() { defer close(s.ended); _ = s.cmd.Wait() }()
	err = live.Await(path+" is ready", func() bool { return s.isReady() || s.hasEnded() })
	if err == nil && s.hasEnded() {
		err = errors.New("it ended")
	}
	if err != nil {
		return nil, fmt.Errorf("start %s: %w:\n%s", path, err, s.Stop())
	}
	return s, nil
}

func (s *Server) hasEnded() bool {
	select {
	case <-s.ended:
		return true
	default:
		return false
	}
}

func (s *Server) isReady() bool {
	resp, err := http.Get(s.URL + "/-/ready")
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

// Stop ends it and returns what it said.
func (s *Server) Stop() string {
	_ = s.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	<-s.ended
	return s.said.String()
}

// Get reads the data of an answer of Prometheus's API.
func (s *Server) Get(path string, values url.Values, into any) error {
	resp, err := http.Get(s.URL + path + "?" + values.Encode())
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	var answer struct {
		Status, Error string
		Data          json.RawMessage
	}
	if err := json.Unmarshal(text, &answer); err != nil || answer.Status != "success" {
		return fmt.Errorf("ask for %s: %s: %s", path, resp.Status, answer.Error)
	}
	return json.Unmarshal(answer.Data, into)
}

// Count is how many series a query has now, and how many of them are a number.
func (s *Server) Count(expr string) (series, numbers int, err error) {
	var data struct {
		ResultType string
		Result     json.RawMessage
	}
	if err := s.Get("/api/v1/query", url.Values{"query": {expr}}, &data); err != nil {
		return 0, 0, err
	}
	if data.ResultType != "vector" {
		return 1, 1, nil
	}
	var all []struct{ Value [2]any }
	if err := json.Unmarshal(data.Result, &all); err != nil {
		return 0, 0, err
	}
	for _, one := range all {
		if one.Value[1] != "NaN" {
			numbers++
		}
	}
	return len(all), numbers, nil
}
