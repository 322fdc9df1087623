package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/spf13/cobra"

	"github.com/kvwitness/kvwitness/sidecar/config"
	"github.com/kvwitness/kvwitness/sidecar/credentials"
	"github.com/kvwitness/kvwitness/sidecar/evidence"
)

// evidenceSource is where evidence is read: a store, or a running sidecar.
type evidenceSource interface {
	list() ([]evidence.Incident, error)
	one(id string) (*told, error)
	export(id string, out io.Writer) error
	verify() error
	shut(id, by, why string) error
}

// fromEvidence asks the source that the flags and the configuration name.
func fromEvidence[T any](cmd *cobra.Command, ask func(evidenceSource) (T, error)) (answer T, err error) {
	cfg, _, err := loadConfig(cmd)
	if err != nil {
		return answer, err
	}
	store, err := cmd.Flags().GetString("store")
	if err != nil {
		return answer, err
	}
	at, err := cmd.Flags().GetString("url")
	if err != nil {
		return answer, err
	}
	if store != "" {
		s, err := evidence.OpenReader(store)
		if errors.Is(err, evidence.ErrInUse) {
			return answer, fmt.Errorf("%w: a sidecar runs on it; ask that with --url", err)
		}
		if err != nil {
			return answer, err
		}
		defer s.Close()
		return ask(storeSource{s})
	}
	var files credentials.Files
	for name, into := range map[string]*string{"ca-file": &files.CA, "cert-file": &files.Cert, "key-file": &files.Key} {
		if *into, err = cmd.Flags().GetString(name); err != nil {
			return answer, err
		}
	}
	web, err := newWebSource(cmd.Context(), at, cfg, files)
	if err != nil {
		return answer, err
	}
	return ask(web)
}

type storeSource struct{ *evidence.Store }

func (s storeSource) list() ([]evidence.Incident, error) { return s.List(), nil }

func (s storeSource) one(id string) (*told, error) {
	i, err := s.Incident(id)
	if err != nil {
		return nil, err
	}
	entries, err := s.Entries(id)
	if err != nil {
		return nil, err
	}
	t := &told{Incident: i}
	for _, e := range entries {
		t.Entries = append(t.Entries, toldEntry{e.Link, e.Body})
	}
	return t, nil
}

func (s storeSource) export(id string, out io.Writer) error { return s.Export(id, out) }

func (s storeSource) verify() error { return s.Verify() }

func (s storeSource) shut(string, string, string) error {
	return errors.New("a disclosure is closed at the running sidecar, which then ends its alert: use --url")
}

// Bounds of what a sidecar may answer.
const (
	maxAnswer   = 512 << 20
	webPatience = 30 * time.Second
)

// webSource asks a running sidecar.
type webSource struct {
	ctx    context.Context
	base   string
	token  string
	client *http.Client
}

func newWebSource(ctx context.Context, at string, cfg config.Config, files credentials.Files) (*webSource, error) {
	if at == "" {
		host, port, err := net.SplitHostPort(cfg.Sidecar.Listen)
		if err != nil {
			return nil, fmt.Errorf("find the sidecar at %s: %w", cfg.Sidecar.Listen, err)
		}
		if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
			host = "127.0.0.1"
		}
		scheme := "http"
		if cfg.Sidecar.ListenFiles.Cert != "" {
			scheme = "https"
		}
		at = scheme + "://" + net.JoinHostPort(host, port)
	}
	trust, err := credentials.Asking(files)
	if err != nil {
		return nil, err
	}
	w := &webSource{ctx: ctx, base: strings.TrimRight(at, "/") + "/api/v1/incidents", client: &http.Client{
		Timeout: webPatience, Transport: &http.Transport{TLSClientConfig: trust},
	}}
	if path := cfg.Sidecar.TokenFile; path != "" {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("read the token: %w", err)
		}
		w.token = strings.TrimSpace(string(text))
	}
	return w, nil
}

// ask reads the answer to a request.
func (w *webSource) ask(method, path string, body []byte, into io.Writer) error {
	req, err := http.NewRequestWithContext(w.ctx, method, w.base+path, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("ask the sidecar: %w", err)
	}
	if w.token != "" {
		req.Header.Set("Authorization", "Bearer "+w.token)
	}
	resp, err := w.client.Do(req)
	if err != nil {
		return fmt.Errorf("ask the sidecar: %w; if it does not run, read its folder with --store", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		var said struct {
			Error string `json:"error"`
		}
		if json.UnmarshalRead(io.LimitReader(resp.Body, 64<<10), &said) != nil || said.Error == "" {
			said.Error = resp.Status
		}
		return fmt.Errorf("the sidecar at %s says: %s", w.base, plainText(said.Error))
	}
	n, err := io.Copy(into, io.LimitReader(resp.Body, maxAnswer))
	if err == nil && n == maxAnswer {
		err = errors.New("the answer is too long")
	}
	if err != nil {
		return fmt.Errorf("ask the sidecar: %w", err)
	}
	return nil
}

func (w *webSource) get(path string, into any) error {
	var b bytes.Buffer
	if err := w.ask(http.MethodGet, path, nil, &b); err != nil {
		return err
	}
	if err := json.Unmarshal(b.Bytes(), into); err != nil {
		return fmt.Errorf("read the sidecar's answer: %w", err)
	}
	return nil
}

func (w *webSource) list() ([]evidence.Incident, error) {
	var all struct {
		Incidents []evidence.Incident `json:"incidents"`
	}
	err := w.get("", &all)
	return all.Incidents, err
}

func (w *webSource) one(id string) (*told, error) {
	t := &told{}
	return t, w.get("/"+url.PathEscape(id), t)
}

func (w *webSource) export(id string, out io.Writer) error {
	return w.ask(http.MethodGet, "/"+url.PathEscape(id)+"/export", nil, out)
}

// verify exports each incident, and verifies that.
func (w *webSource) verify() error {
	all, err := w.list()
	if err != nil {
		return err
	}
	for _, i := range all {
		var b bytes.Buffer
		if err := w.export(i.ID, &b); err != nil {
			return err
		}
		if _, err := evidence.VerifyFile(&b, i.Head); err != nil {
			return fmt.Errorf("incident %s: %w", i.ID, err)
		}
	}
	return nil
}

func (w *webSource) shut(id, by, why string) error {
	body, err := json.Marshal(map[string]string{"by": by, "why": why})
	if err != nil {
		return fmt.Errorf("close %s: %w", id, err)
	}
	return w.ask(http.MethodPost, "/"+url.PathEscape(id)+"/close", body, io.Discard)
}
