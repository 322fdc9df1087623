package config

import (
	"errors"
	"testing"
)

func TestWhoIsToldIsCheckedWhenItIsRead(t *testing.T) {
	env := []string{
		"KVWITNESS_ALERTMANAGERS=http://a:9093, https://b/am", "KVWITNESS_ALERT_LABELS=cluster=c,model=m/70b", "KVWITNESS_HOSTS=node-a.example",
		"KVWITNESS_PAGE_URL=https://w.example/", "KVWITNESS_EVIDENCE=/var/lib/x", "KVWITNESS_EVIDENCE_DAYS=7",
	}
	cfg, origin, err := Load(Source{Env: env})
	a := cfg.Sidecar.Alerts
	if err != nil || len(a.Managers) != 2 || a.Managers[1] != "https://b/am" || a.Labels["model"] != "m/70b" || a.PageURL != "https://w.example" || a.Hosts[0] != "node-a.example" {
		t.Errorf("%+v, %v", a, err)
	}
	shown := map[string]string{}
	for _, e := range cfg.All(origin) {
		shown[e.Key] = e.Value
	}
	if shown["alert_labels"] != "cluster=c,model=m/70b" || shown["alertmanagers"] != "http://a:9093,https://b/am" || shown["evidence_days"] != "7" {
		t.Errorf("%v", shown)
	}
	for _, wrong := range []string{
		"ALERTMANAGERS=a:9093", "ALERTMANAGERS=http://u:p@a", "ALERTMANAGERS=http://a,http://a", "ALERTMANAGERS=file:///x",
		"ALERT_LABELS=cluster", "ALERT_LABELS=1a=b", "ALERT_LABELS=a=b,a=c", "ALERT_LABELS=a b=c", "HOSTS=a/b", "HOSTS=A", "PAGE_URL=w.example",
		"EVIDENCE_DAYS=0", "EVIDENCE_BYTES=1000", "EVIDENCE_MEMORY=1",
	} {
		if _, _, err := Load(Source{Env: []string{"KVWITNESS_" + wrong}}); !errors.Is(err, ErrConfig) {
			t.Errorf("%s: %v", wrong, err)
		}
	}
}
