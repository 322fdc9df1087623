// Package beside finds the commands that a sidecar starts: they are installed beside
// it. Those that something else starts, in containers of their own, it waits for. It
// imports nothing of kvwitness.
package beside

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Find is the path of an executable: beside this one, else where commands are looked
// up.
func Find(command string) (string, error) {
	if self, err := os.Executable(); err == nil {
		path := filepath.Join(filepath.Dir(self), command)
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			return path, nil
		}
	}
	path, err := exec.LookPath(command)
	if err != nil {
		return "", fmt.Errorf("find %s: %w; install it beside this command", command, err)
	}
	return path, nil
}
