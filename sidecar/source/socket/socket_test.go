package socket

import (
	"encoding/binary"
	"net/netip"
	"testing"
)

// Promise: ends of both families are read, and a family that is neither is an
// error.
func TestEndsAreReadInBothFamilies(t *testing.T) {
	b := make([]byte, EndsBytes)
	binary.NativeEndian.PutUint32(b, 9)
	binary.NativeEndian.PutUint16(b[6:], 100)
	binary.NativeEndian.PutUint16(b[8:], 200)
	for family, addresses := range map[uint16][2]string{2: {"10.0.0.1", "10.0.0.2"}, 10: {"fd00::1", "fd00::2"}} {
		binary.NativeEndian.PutUint16(b[4:], family)
		local, remote := netip.MustParseAddr(addresses[0]), netip.MustParseAddr(addresses[1])
		copy(b[16:32], local.AsSlice())
		copy(b[32:48], remote.AsSlice())
		e, err := ParseEnds(b)
		want := Ends{9, netip.AddrPortFrom(local, 100), netip.AddrPortFrom(remote, 200)}
		if err != nil || e != want {
			t.Errorf("read %+v, %v, want %+v", e, err, want)
		}
	}
	binary.NativeEndian.PutUint16(b[4:], 1)
	if _, err := ParseEnds(b); err == nil {
		t.Error("a Unix socket has ends")
	}
}

// Promise: a direction is the same seen from both ends; on loopback only within
// one namespace.
func TestADirectionIsTheSameFromBothEnds(t *testing.T) {
	far := Ends{1, netip.MustParseAddrPort("10.0.0.1:1"), netip.MustParseAddrPort("10.0.0.2:2")}
	other := Ends{2, far.Remote, far.Local}
	if far.Sent() != other.Received() || far.Received() != other.Sent() || far.Sent() == far.Received() {
		t.Errorf("%+v and %+v", far.Sent(), other.Received())
	}
	near := Ends{1, netip.MustParseAddrPort("127.0.0.1:1"), netip.MustParseAddrPort("127.0.0.1:2")}
	elsewhere := Ends{2, near.Remote, near.Local}
	if near.Sent() == elsewhere.Received() {
		t.Error("two namespaces have one loopback")
	}
}
