package zmtp

import (
	"fmt"
	"net"
	"syscall"
)

func peerCredentials(c *net.UnixConn) (Credentials, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return Credentials{}, fmt.Errorf("read peer credentials: %w", err)
	}
	var cred *syscall.Ucred
	var optErr error
	err = raw.Control(func(fd uintptr) {
		cred, optErr = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	})
	if err == nil {
		err = optErr
	}
	if err != nil {
		return Credentials{}, fmt.Errorf("read peer credentials: %w", err)
	}
	return Credentials{PID: cred.Pid, UID: cred.Uid, GID: cred.Gid}, nil
}
