// Package build says which kvwitness this is. Every command prints it for
// --version. It imports only the standard library and promises an answer
// however the command was built: by make (which sets version and commit), by
// go install (which records the module's version) or by hand.
package build

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// Set by the linker from the Makefile, empty otherwise.
var version, commit string

// String is the version, the commit and the Go version in one line.
func String() string {
	v, c := version, commit
	if info, ok := debug.ReadBuildInfo(); ok {
		v = orElse(v, info.Main.Version)
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				c = orElse(c, s.Value)
			}
		}
	}
	return fmt.Sprintf("%s, commit %s, %s %s/%s",
		orElse(v, "unknown"), orElse(c, "unknown"), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

func orElse(said, otherwise string) string {
	if said == "" || said == "unknown" {
		return otherwise
	}
	return said
}
