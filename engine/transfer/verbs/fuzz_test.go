package verbs

import (
	"bytes"
	"errors"
	"net/netip"
	"testing"

	"github.com/kvwitness/kvwitness/engine/transfer"
)

// Promise: whatever the other side says is refused or kept within its bounds; no
// key is given for bytes that its regions do not hold.
func FuzzHandshake(f *testing.F) {
	e := end{Version: version, QPN: 17, PSN: 99, GID: netip.MustParseAddr("::ffff:10.77.0.1"), MTU: 3}
	for _, v := range []any{e, answer{e, []reach{{Base: 1 << 40, Bytes: 4096, RKey: 7}, {Base: 16, Bytes: 1, RKey: 8}}}} {
		var b bytes.Buffer
		if err := writeMessage(&b, v); err != nil {
			f.Fatal(err)
		}
		f.Add(b.Bytes(), uint64(1<<40), uint64(4096))
	}
	f.Fuzz(func(t *testing.T, in []byte, addr, size uint64) {
		if e, err := readHello(bytes.NewReader(in)); err == nil && (e.QPN > maxQPN || e.MTU > maxMTU || !e.GID.Is6()) {
			t.Errorf("taken for a queue pair: %+v", e)
		}
		a, err := readAnswer(bytes.NewReader(in))
		if err != nil {
			if !errors.Is(err, ErrHandshake) {
				t.Errorf("refused without ErrHandshake: %v", err)
			}
			return
		}
		if len(a.Regions) > transfer.MaxRegions {
			t.Errorf("%d regions", len(a.Regions))
		}
		if size == 0 {
			return
		}
		key, err := a.key(addr, size)
		for _, r := range a.Regions {
			if err == nil && r.RKey == key && addr >= r.Base && addr-r.Base < r.Bytes && size <= r.Bytes-(addr-r.Base) {
				return
			}
		}
		if err == nil {
			t.Errorf("key %d for %d bytes at %#x", key, size, addr)
		}
	})
}
