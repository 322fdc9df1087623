package config

import (
	"slices"
	"strings"
	"time"

	"github.com/kvwitness/kvwitness/sidecar/source/nvml"
)

// Whether the driver is asked about GPUs.
const (
	GPUsAuto     = "auto"     // where there is a driver
	GPUsOff      = "off"      // not at all
	GPUsRequired = "required" // and the sidecar is not well while it does not tell
)

// GPUs say how the driver is asked who holds memory of the GPUs.
type GPUs struct {
	Mode     string
	Every    time.Duration
	Deadline time.Duration // of one call of the driver
	Library  string        // path; empty: where the loader finds it
	Socket   string        // where a helper is waited for that something else starts; empty: it is started
	Allow    []string      // executables that may use a GPU beside engines
	Proc     string        // where the node's /proc is mounted
}

// gpuSettings are the keys of it.
func gpuSettings() []setting {
	return []setting{
		word("gpus", GPUsAuto, "ask the driver who holds memory of the GPUs; required: the sidecar is not well unless it tells",
			func(c *Config) *string { return &c.GPUs.Mode }, GPUsAuto, GPUsOff, GPUsRequired),
		duration("gpu_every", "2s", "how often the driver is asked", func(c *Config) *time.Duration { return &c.GPUs.Every }),
		duration("gpu_deadline", "5s", "how long one call of the driver may take before kvwitness-nvml is replaced",
			func(c *Config) *time.Duration { return &c.GPUs.Deadline }),
		text("gpu_library", "", "path of the driver's library; empty: libnvidia-ml.so.1, where the loader finds it",
			func(c *Config) *string { return &c.GPUs.Library }),
		text("gpu_socket", "", "socket at which to wait for a kvwitness-nvml --connect that something else starts; empty: the sidecar starts it",
			func(c *Config) *string { return &c.GPUs.Socket }),
		gpuAllow(),
		text("proc", "/proc", "where the node's own /proc is mounted: processes on GPUs are looked up there", func(c *Config) *string { return &c.GPUs.Proc }),
	}
}

func gpuAllow() setting {
	return setting{
		"gpu_allow", "executables that may use a GPU beside engines and the driver's own, NAME or /PATH/PATTERN,…", "",
		"a list of at most 64 names, or patterns of absolute paths, separated by commas",
		func(c *Config, text string) error {
			c.GPUs.Allow = nil
			for one := range strings.SplitSeq(text, ",") {
				if one = strings.TrimSpace(one); one == "" {
					continue
				}
				if !nvml.ValidAllow(one) || len(c.GPUs.Allow) == nvml.MaxAllow || slices.Contains(c.GPUs.Allow, one) {
					return errNotAllowed
				}
				c.GPUs.Allow = append(c.GPUs.Allow, one)
			}
			return nil
		},
		func(c *Config) string { return strings.Join(c.GPUs.Allow, ",") },
	}
}
