package daemon

import (
	"time"

	"github.com/kvwitness/kvwitness/sidecar/config"
	"github.com/kvwitness/kvwitness/sidecar/metrics"
	"github.com/kvwitness/kvwitness/sidecar/source/cuda"
	"github.com/kvwitness/kvwitness/sidecar/source/nvml"
	"github.com/kvwitness/kvwitness/sidecar/source/proven"
)

// heldEvery is how often what processes hold of the CUDA driver is shown anew.
const heldEvery = 500 * time.Millisecond

// MemoryState is what a process has of the CUDA driver.
type MemoryState struct {
	Process   uint32            `json:"process"`
	Instances []string          `json:"instances,omitempty"` // that it is
	Held      map[string]uint64 `json:"held_bytes"`          // by sort of memory, where there is some
	Allocated uint64            `json:"allocated_bytes"`     // since it was watched
	Freed     uint64            `json:"freed_bytes"`
	Unknown   string            `json:"unknown,omitempty"` // not all was seen, and why
}

// holds takes note of what processes have of the CUDA driver, now and then.
func (w *witness) holds(state *proven.State) {
	if time.Since(w.heldAt) < heldEvery {
		return
	}
	w.heldAt = time.Now()
	var all []MemoryState
	for _, h := range state.Holdings() {
		m := MemoryState{h.Process, h.Instances, map[string]uint64{}, h.Allocated, h.Freed, h.Why}
		for s := range cuda.NumSort {
			if h.Held[s] > 0 {
				m.Held[s.String()] = h.Held[s]
			}
		}
		all = append(all, m)
	}
	var copied map[string]proven.Copied
	if w.copies {
		copied = state.Copied()
	}
	w.say(func(s *WitnessState) { s.Memory, s.Copied = all, copied })
}

// copying is what processes copied; nil: nobody looks, or nothing is watched yet. A probe
// that something else starts may be told not to look.
func (w *witness) copying() *metrics.Copies {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.seen.Copied == nil || w.socket != "" && w.seen.Seen.Copies == 0 {
		return nil
	}
	return &metrics.Copies{Of: w.seen.Copied, Uncounted: w.seen.Seen.Uncounted + w.seen.Seen.Probe.CopiesLost}
}

// seesMemory are the instances of which all is known that their process has of the CUDA
// driver. w.mu is held.
func (w *witness) seesMemory() map[string]bool {
	all := map[string]bool{}
	for _, m := range w.seen.Memory {
		for _, inst := range m.Instances {
			all[inst] = m.Unknown == ""
		}
	}
	return all
}

// strangers tells who has no business with the memory of another process: see
// nvml.OwnersConfig.Strange.
func strangers(c *config.GPUs) func(process, owner uint32) bool {
	owners := nvml.OwnersConfig{Proc: c.Proc, Allow: c.Allow}
	return func(process, owner uint32) bool { return owners.Strange(int(process), int(owner)) }
}
