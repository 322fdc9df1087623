//go:build !linux

package zmtp

import (
	"fmt"
	"net"
)

func peerCredentials(*net.UnixConn) (Credentials, error) {
	return Credentials{}, fmt.Errorf("read peer credentials: only Linux has SO_PEERCRED: %w", ErrCredentials)
}
