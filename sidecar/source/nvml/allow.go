package nvml

import (
	"path"
	"strings"
)

// mpsServer holds memory for its clients with old drivers.
const mpsServer = "nvidia-cuda-mps-server"

// DefaultAllow are executables that may use a GPU beside engines.
var DefaultAllow = []string{
	mpsServer, "nvidia-cuda-mps-control", "nvidia-persistenced", "nvidia-smi", "nv-hostengine", "dcgm-exporter", "dcgmi", "nvidia-imex",
}

// MaxAllow is how many more a configuration may name.
const MaxAllow = 64

// ValidAllow reports whether text is the name of an executable, or a pattern of
// absolute paths.
func ValidAllow(text string) bool {
	_, err := path.Match(text, "")
	return err == nil && text != "" && len(text) <= 256 && (path.IsAbs(text) || !strings.Contains(text, "/"))
}

// standing of a process in the list of those that are allowed.
type standing uint8

const (
	strange standing = iota
	allowed
	unseen // its name is in the list, and its executable cannot be seen
)

// allows looks a process up. Its name alone, which it may choose, clears nobody.
func allows(list []string, p *process) standing {
	for _, pattern := range list {
		name := path.Base(pattern)
		if p.exe == "" {
			if hit, _ := path.Match(name[:min(len(name), 15)], p.name); hit {
				return unseen
			}
			continue
		}
		seen := p.exe
		if !path.IsAbs(pattern) {
			seen = path.Base(seen)
		}
		if hit, _ := path.Match(pattern, seen); hit {
			return allowed
		}
	}
	return strange
}
