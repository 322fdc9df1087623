package check

import (
	"context"
	"os"

	"github.com/kvwitness/kvwitness/sidecar/config"
	"github.com/kvwitness/kvwitness/sidecar/source/nvml"
)

// loaded is there while NVIDIA's kernel module is.
const loaded = "/proc/driver/nvidia/version"

// GPUs is the need of a driver that tells who holds memory of the GPUs. A machine
// without one lacks nothing, unless the configuration asks for it. helper is the path
// of kvwitness-nvml; empty: where it is looked for otherwise.
func GPUs(ctx context.Context, c *config.GPUs, helper string) Need {
	const name = "gpus"
	if c.Mode == config.GPUsOff {
		return met(name, "the driver is not asked (gpus is off)")
	}
	s := nvml.Ask(ctx, nvml.StartConfig{Path: helper, Library: c.Library, Deadline: c.Deadline})
	_, err := os.Stat(loaded)
	return gpus(c, &s, err == nil)
}

// gpus judges how the driver stands; present reports that its module is loaded.
func gpus(c *config.GPUs, s *nvml.Status, present bool) Need {
	const name = "gpus"
	absent := false
	switch s.State {
	case nvml.OK:
		return met(name, "%s", s.Line())
	case nvml.NoHelper, nvml.NotBuilt, nvml.NoDriver, nvml.NotLoaded, nvml.NoGPU:
		absent = !present
	default:
	}
	if absent && c.Mode == config.GPUsAuto {
		return met(name, "none to watch here (%s)", s.State)
	}
	found := s.State.String()
	if s.Call != "" {
		found += " (" + s.Call + ")"
	}
	return unmet(name, s.State.Remedy()+", or set gpus to off", "%s", found)
}
