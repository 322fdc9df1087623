package stream

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
)

// SystemDir is where the sockets of engines lie, if that folder exists.
const SystemDir = "/run/kvwitness"

// maxSocketPath is what a socket's name can hold on Linux.
const maxSocketPath = 107

// ErrPath is returned where an instance's name makes a socket's path too long.
var ErrPath = errors.New("the socket's path is too long: name a shorter folder, or the endpoints")

// DefaultDir is the folder of the sockets where none is configured: SystemDir
// if it exists, else one of the user's own among the temporary files.
func DefaultDir() string {
	if info, err := os.Stat(SystemDir); err == nil && info.IsDir() {
		return SystemDir
	}
	return filepath.Join(os.TempDir(), "kvwitness-"+strconv.Itoa(os.Geteuid()))
}

// Endpoints are the default places of an instance's PUB and ROUTER sockets: IPC
// files in dir.
func Endpoints(dir, inst string) (events, replay string, err error) {
	name := filepath.Join(dir, url.PathEscape(inst))
	events, replay = name+".events", name+".replay"
	if len(events) > maxSocketPath {
		return "", "", fmt.Errorf("name the socket of %q in %s: %w", inst, dir, ErrPath)
	}
	return "ipc://" + events, "ipc://" + replay, nil
}
