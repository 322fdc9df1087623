package daemon

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kvwitness/kvwitness/engine/lifecycle/subscribe"
	"github.com/kvwitness/kvwitness/sidecar/config"
)

// pairOfTables are two sidecars on loopback that know each other by a token; the second
// dials the first.
func pairOfTables(t *testing.T) (a, b *table) {
	t.Helper()
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("a token that is long enough"), 0o600); err != nil {
		t.Fatal(err)
	}
	a = newTable(t, fmt.Sprintf("engines: 'a=;instance=i'\nnode: node-a\npeer_listen: '127.0.0.1:0'\npeer_token_file: %s\npeer_patience: 20s\n", token))
	b = newTable(t, fmt.Sprintf("engines: 'b=;instance=j'\nnode: node-b\npeers: ['far=%s']\npeer_token_file: %s\npeer_patience: 20s\n", a.peers.server.Addr(), token))
	return a, b
}

// Promise: what is found of a peer's instance, and its verdicts, are the peer's to say;
// of its own a node says all, and of what nobody calls his own too.
func TestEachNodeSpeaksOfItsOwnInstances(t *testing.T) {
	_, b := pairOfTables(t)
	waitFor(t, "the peer's instance", func() bool { return b.anothers("i") })
	for inst, another := range map[string]bool{"i": true, "j": false, "nobody's": false} {
		if b.anothers(inst) != another {
			t.Errorf("%s is another's: %v", inst, !another)
		}
	}
	if b.yield("j", "far") || b.yield("i", "farther") || !b.yield("i", "far") {
		t.Error("an instance is this node's, or the first peer's that calls it its own")
	}
	if b.peers.meet("node-a", "farther") || !b.peers.meet("node-a", "far") || !b.peers.meet("node-c", "farther") {
		t.Error("two peers have one name, and one clock")
	}
	if b.claim(subscribe.Config{Instance: "i"}, "b"); b.anothers("i") {
		t.Error("this node's own engine does not come first")
	}
	waitFor(t, "the state and the metrics", func() bool {
		s := b.state()
		return s.Peers.Links[0].Connected && s.Peers.Links[0].Node == "node-a" && strings.Contains(b.get("/metrics"), `kvwitness_peer_connected{peer="far"} 1`)
	})
}

// Promise: as long as a peer was never there any instance may be its, so that what the
// wire tells of it is not taken for all that can be known.
func TestWhatThePeerMayFollowIsNotToldByTheWire(t *testing.T) {
	a, b := pairOfTables(t)
	waitFor(t, "the peer", func() bool { return b.peers.links[0].Met() })
	if b.follows("nobody's") || !b.follows("i") {
		t.Error("what a peer calls its own is followed, and nothing else")
	}
	if a.follows("j") {
		t.Error("who dials nobody follows none of theirs")
	}
	if p := newPeers(); p.may("x") {
		t.Error("without peers nothing is a peer's")
	}
}

func TestPeersThatCannotBeSureOfEachOtherAreAnError(t *testing.T) {
	for name, text := range map[string]string{
		"beyond loopback without certificates": "peer_listen: 10.0.0.1:1\n",
		"a peer beyond loopback":               "peers: ['far=10.0.0.1:1']\n",
		"no token":                             "peer_listen: '127.0.0.1:0'\n",
		"a certificate without its key":        "peer_listen: '127.0.0.1:0'\npeer_cert_file: /nowhere\n",
	} {
		file := filepath.Join(t.TempDir(), "c.yaml")
		if err := os.WriteFile(file, []byte(listen+"engines: 'a=;instance=i'\n"+text), 0o600); err != nil {
			t.Fatal(err)
		}
		cfg, origin, err := config.Load(config.Source{File: file})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := New(t.Context(), Options{Config: cfg, Origin: origin, Out: io.Discard, Log: slog.New(slog.DiscardHandler)}); err == nil {
			t.Errorf("%s is not refused", name)
		}
	}
}
