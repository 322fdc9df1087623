package zmtp

import (
	"errors"
	"fmt"
	"os"
)

// ErrCredentials is returned where a process may not connect, or where the
// system does not say which process it is.
var ErrCredentials = errors.New("peer refused by its credentials")

// Credentials say which process is at the other end of an IPC connection, as
// the kernel recorded it when that process connected or listened.
type Credentials struct {
	PID      int32
	UID, GID uint32
}

// SameUser lets a process of this process's user connect, and root's.
func SameUser(c Credentials) error {
	if own := uint32(os.Geteuid()); c.UID != own && c.UID != 0 {
		return fmt.Errorf("process %d of user %d, this is user %d: %w", c.PID, c.UID, own, ErrCredentials)
	}
	return nil
}
