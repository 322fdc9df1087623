// Package listen waits for a helper that something else starts, as in a container of
// its own, and that connects.
//
// It imports net, which may link C: helpers that drop rights on all threads must not
// import it. It promises: who is neither root nor the sidecar's own user is not let in;
// waiting ends with its context.
package listen

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// socketMode lets in the sidecar's own user and group: a helper that is root without
// any right to pass over modes comes by the group.
const socketMode = 0o660

// ErrStranger is returned for who connects and is neither root nor the sidecar's user.
var ErrStranger = errors.New("a stranger")

// Accept waits at a socket until a helper connects that was started elsewhere, as in a
// container of its own. One is let in; whoever comes later is not.
func Accept(ctx context.Context, path string) (conn *net.UnixConn, err error) {
	_ = os.Remove(path) // of one that was killed
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "unix", path)
	if err != nil {
		return nil, fmt.Errorf("wait for a helper: %w", err)
	}
	defer l.Close()
	defer context.AfterFunc(ctx, func() { _ = l.Close() })()
	if err := os.Chmod(path, socketMode); err != nil {
		return nil, fmt.Errorf("wait for a helper: %w", errors.Join(err, ctx.Err())) // closed by then, it is no file any more
	}
	c, err := l.Accept()
	if err != nil {
		return nil, fmt.Errorf("wait for a helper at %s: %w", path, errors.Join(err, ctx.Err()))
	}
	conn = c.(*net.UnixConn) // as Listen was asked for
	if err := known(conn); err != nil {
		return nil, errors.Join(fmt.Errorf("wait for a helper at %s: %w", path, err), conn.Close())
	}
	return conn, nil
}

// known reports whether the other side is root or this user.
func known(conn *net.UnixConn) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var cred *unix.Ucred
	var asked error
	if err := raw.Control(func(fd uintptr) { cred, asked = unix.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED) }); err != nil || asked != nil {
		return errors.Join(err, asked)
	}
	if cred.Uid != 0 && int(cred.Uid) != os.Geteuid() {
		return fmt.Errorf("%w: user %d", ErrStranger, cred.Uid)
	}
	return nil
}
