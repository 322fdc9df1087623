package alert

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/go-json-experiment/json"
)

// tell pushes to one Alertmanager: what is new at once, what goes on now and then.
func (p *Pusher) tell(ctx context.Context, m *manager, wake <-chan struct{}) {
	defer m.client.CloseIdleConnections()
	pause := time.Duration(0) // after failures
	timer := time.NewTimer(again)
	defer timer.Stop()
	for {
		news := false
		select {
		case <-ctx.Done():
			return
		case <-wake:
			news = true
		case <-timer.C:
		}
		if news && !sleep(ctx, m.patience(pause)) {
			return
		}
		all := p.snapshot(time.Now())
		wait := again
		if len(all) > 0 {
			m.lastTold = time.Now()
			err := m.push(ctx, all, p.cfg.Token)
			m.outcome(err)
			if err == nil {
				pause = 0
			} else {
				pause = min(max(2*pause, firstPause), MaxPause)
				wait = pause + rand.N(pause/4)
			}
		}
		timer.Reset(wait)
	}
}

// patience is how long news wait: a moment, for the rest of an incident and its
// evidence to come, or until enough time has passed since the last ones.
func (m *manager) patience(pause time.Duration) time.Duration {
	since := time.Since(m.lastTold)
	if m.lastTold.IsZero() || since > max(apart, pause) {
		return collect
	}
	return max(apart, pause) - since
}

func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// push posts alerts.
func (m *manager) push(ctx context.Context, all []posted, token string) error {
	body, err := json.Marshal(all, json.Deterministic(true))
	if err != nil {
		return fmt.Errorf("write alerts: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, m.url, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("tell Alertmanager: %w", err)
	}
	req.Header.Set("Content-Type", "application/json")
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := m.client.Do(req)
	if err != nil {
		return fmt.Errorf("tell Alertmanager: %w", err)
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 64<<10)) // so that the connection can be used again
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("tell Alertmanager: it answers %s", resp.Status)
	}
	return nil
}

func (m *manager) outcome(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err != nil {
		m.failed.Add(1)
		m.problem = err.Error()
		return
	}
	m.sent.Add(1)
	m.lastOK.Store(time.Now().UnixNano())
	m.problem = ""
}
