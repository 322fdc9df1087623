package daemon

import (
	"net/netip"
	"os"
	"path/filepath"
	"testing"
)

// Promise: what the kernel lists as an address of a device is of this node, IPv4
// among them; empty places and other addresses are not.
func TestAddressesOfDevicesAreOfThisNode(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"0": "fe80:0000:0000:0000:0000:00ff:fe00:0001\n", "1": "0000:0000:0000:0000:0000:ffff:0a4d:0001\n",
		"2": "0000:0000:0000:0000:0000:0000:0000:0000\n", "3": "nothing\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	g := newGIDs(filepath.Join(dir, "*"))
	for text, want := range map[string]bool{"fe80::ff:fe00:1": true, "10.77.0.1": true, "10.77.0.2": false, "::": false} {
		if got := g.local(netip.MustParseAddr(text)); got != want {
			t.Errorf("%s is of this node: %v", text, got)
		}
	}
}
