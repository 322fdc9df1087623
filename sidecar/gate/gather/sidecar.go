package gather

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/kvwitness/kvwitness/sidecar/credentials"
	"github.com/kvwitness/kvwitness/sidecar/gate"
	"github.com/kvwitness/kvwitness/sidecar/source/engineinfo"
)

const (
	maxAnswer = 16 << 20
	// settled is for how long nothing new must come before the sidecar has judged.
	settled    = 1500 * time.Millisecond
	maxExample = 300
)

// sidecar is one that is asked what it found.
type sidecar struct {
	base     *url.URL
	token    string
	web      *http.Client
	problem  string
	hungUp   int // clients of the gate
	patience time.Duration

	findings, verdicts uint64   // the last ids before the traffic
	engines            []string // instances of the deployment, where all say which they are
}

// newSidecar is nil where none is named.
func newSidecar(d *Deployment) (*sidecar, error) {
	if d.Sidecar == "" {
		return nil, nil
	}
	u, err := url.Parse(d.Sidecar)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("%w: %q is not the URL of a sidecar", ErrDeployment, d.Sidecar)
	}
	token, err := engineinfo.ReadKey(d.SidecarTokenFile)
	if err != nil {
		return nil, err
	}
	trust, err := credentials.Asking(credentials.Files{Cert: d.SidecarCertFile, Key: d.SidecarKeyFile, CA: d.CAFile})
	if err != nil {
		return nil, err
	}
	return &sidecar{base: u, token: token, web: &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{TLSClientConfig: trust}}}, nil
}

// entry is a finding or a verdict.
type entry struct {
	ID   uint64 `json:"id"`
	Said struct {
		Kind        string `json:"kind"`
		Verdict     string `json:"verdict"`
		Why         string `json:"why"`
		Claim       string `json:"claim"`
		Observation string `json:"observation"`
		Inst        string `json:"inst"`
		Synthetic   bool   `json:"synthetic"`
	} `json:"said"`
}

func (s *sidecar) get(ctx context.Context, name string, since uint64) ([]entry, error) {
	at := s.base.JoinPath("api/v1", name)
	at.RawQuery = fmt.Sprint("since=", since)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), nil)
	if err != nil {
		return nil, err
	}
	if s.token != "" {
		req.Header.Set("Authorization", "Bearer "+s.token)
	}
	resp, err := s.web.Do(req)
	if err != nil {
		return nil, fmt.Errorf("ask the sidecar: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("ask the sidecar for its %s: status %d", name, resp.StatusCode)
	}
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return nil, fmt.Errorf("ask the sidecar for its %s: %w", name, err)
	}
	var lists map[string][]entry
	if err := json.Unmarshal(raw, &lists); err != nil {
		return nil, fmt.Errorf("ask the sidecar for its %s: %w", name, err)
	}
	return lists[name], nil
}

// begin notes how far the sidecar is with its findings, and warmed, once what proves
// the paths was sent, with its verdicts.
func (s *sidecar) begin(ctx context.Context) {
	f, err := s.get(ctx, "findings", 0)
	if err != nil {
		s.problem = err.Error()
	}
	s.findings = last(f, 0)
}

func (s *sidecar) warmed(ctx context.Context) {
	_, v, err := s.rest(ctx)
	if err != nil {
		s.problem = err.Error()
	}
	s.verdicts = last(v, 0)
}

// standing reports whether a finding of before the gate's traffic counts: one that is
// said once, when engines start or meet, and of an engine that is still there.
func (s *sidecar) standing(kind, inst string) bool {
	return slices.Contains([]string{"capacity_inversion", "layout_mismatch", "vram_mismatch"}, kind) &&
		(s.engines == nil || slices.Contains(s.engines, inst))
}

func last(all []entry, otherwise uint64) uint64 {
	if len(all) == 0 {
		return otherwise
	}
	return all[len(all)-1].ID
}

// rest waits until nothing new comes.
func (s *sidecar) rest(ctx context.Context) (findings, verdicts []entry, err error) {
	at, seen := time.Now(), uint64(0)
	for end := time.Now().Add(s.patience); time.Now().Before(end) && ctx.Err() == nil; time.Sleep(100 * time.Millisecond) {
		if findings, err = s.get(ctx, "findings", 0); err != nil {
			return nil, nil, err
		}
		if verdicts, err = s.get(ctx, "verdicts", s.verdicts); err != nil {
			return nil, nil, err
		}
		if n := last(findings, 0) + last(verdicts, 0); n != seen {
			seen, at = n, time.Now()
		}
		if time.Since(at) > settled {
			break
		}
	}
	return findings, verdicts, ctx.Err()
}

// witness is what the sidecar found since begin.
func (s *sidecar) witness(ctx context.Context) *gate.Witness {
	w := &gate.Witness{Problem: s.problem, Findings: map[string]int{}, Examples: map[string]string{}, Why: map[string]int{}, HungUp: s.hungUp}
	if w.Problem != "" {
		return w
	}
	findings, verdicts, err := s.rest(ctx)
	if err != nil {
		w.Problem = err.Error()
		return w
	}
	for i := range findings {
		if f := &findings[i].Said; !f.Synthetic && (findings[i].ID > s.findings || s.standing(f.Kind, f.Inst)) {
			w.Findings[f.Kind]++
			text := fmt.Sprintf("%s: claimed: %s; observed: %s", f.Inst, f.Claim, f.Observation)
			w.Examples[f.Kind] = text[:min(len(text), maxExample)]
		}
	}
	for i := range verdicts {
		switch v := &verdicts[i].Said; v.Verdict {
		case "clean":
			w.Clean++
		case "violated":
			w.Violated++
		default:
			w.Unseen(v.Why)
		}
	}
	return w
}
