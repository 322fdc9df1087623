package config

import (
	"errors"
	"reflect"
	"testing"
)

func TestPeersAreTheSameInFlagsAndFiles(t *testing.T) {
	want := []Peer{{"rack-1/prefill", "10.0.0.1:9465"}, {"d", "[fd00::1]:9465"}}
	for name, src := range map[string]Source{
		"environment": {Env: []string{"KVWITNESS_PEERS=rack-1/prefill=10.0.0.1:9465, d=[fd00::1]:9465"}},
		"yaml":        {File: write(t, "c.yaml", "peers:\n  - rack-1/prefill=10.0.0.1:9465\n  - d=[fd00::1]:9465\n")},
		"json":        {File: write(t, "c.json", `{"peers":["rack-1/prefill=10.0.0.1:9465","d=[fd00::1]:9465"]}`)},
	} {
		cfg, _, err := Load(src)
		if err != nil || !reflect.DeepEqual(cfg.Sidecar.Peers.All, want) {
			t.Errorf("%s: %+v, %v", name, cfg.Sidecar.Peers.All, err)
		}
	}
}

func TestPeersThatCannotBeDialledAreRefused(t *testing.T) {
	for name, text := range map[string]string{
		"no name": "=h:1", "no address": "a", "no port": "a=h", "port 0": "a=h:0", "a URL": "a=https://h:1", "no host": "a=:1",
		"capitals": "A=h:1", "name twice": "a=h:1,a=h:2", "address twice": "a=h:1,b=h:1",
	} {
		if _, _, err := Load(Source{Env: []string{"KVWITNESS_PEERS=" + text}}); !errors.Is(err, ErrConfig) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
