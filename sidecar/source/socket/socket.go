// Package socket names the two ends of a TCP connection, as a probe in the
// kernel saw them.
//
// It imports the standard library. The layout that it reads is that of struct
// ends in bpf/include/socket.h; a test of the probes holds the two together.
package socket

import (
	"encoding/binary"
	"fmt"
	"net/netip"
)

// EndsBytes is the length of a connection's ends in a record.
const EndsBytes = 48

// families of sockets, as the kernel numbers them.
const (
	inet  = 2
	inet6 = 10
)

// Ends are a connection's two ends, seen from one of them.
type Ends struct {
	NetNS         uint32 // the network namespace, by its inode
	Local, Remote netip.AddrPort
}

// ParseEnds reads ends; b has at least EndsBytes.
func ParseEnds(b []byte) (Ends, error) {
	family := binary.NativeEndian.Uint16(b[4:])
	e := Ends{NetNS: binary.NativeEndian.Uint32(b)}
	var local, remote netip.Addr
	switch family {
	case inet:
		local, remote = netip.AddrFrom4([4]byte(b[16:20])), netip.AddrFrom4([4]byte(b[32:36]))
	case inet6:
		// A listener on all addresses has IPv4 peers too.
		local, remote = netip.AddrFrom16([16]byte(b[16:32])).Unmap(), netip.AddrFrom16([16]byte(b[32:48])).Unmap()
	default:
		return e, fmt.Errorf("read the ends of a connection: address family %d", family)
	}
	e.Local = netip.AddrPortFrom(local, binary.NativeEndian.Uint16(b[6:]))
	e.Remote = netip.AddrPortFrom(remote, binary.NativeEndian.Uint16(b[8:]))
	return e, nil
}

// Flow is one direction of a connection, the same seen from both ends.
type Flow struct {
	NetNS    uint32 // 0 unless the addresses mean something only within one
	From, To netip.AddrPort
}

// Sent is the direction from the end that was looked at.
func (e Ends) Sent() Flow { return Flow{e.scope(), e.Local, e.Remote} }

// Received is the direction to it.
func (e Ends) Received() Flow { return Flow{e.scope(), e.Remote, e.Local} }

// scope is the namespace where it is needed to tell two connections apart: each
// namespace has its own loopback.
func (e Ends) scope() uint32 {
	if e.Local.Addr().IsLoopback() || e.Remote.Addr().IsLoopback() {
		return e.NetNS
	}
	return 0
}
