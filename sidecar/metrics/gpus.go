package metrics

import (
	"strconv"

	"github.com/kvwitness/kvwitness/sidecar/source/nvml"
)

// GPUs is what the driver says, and whose the memory is.
type GPUs struct {
	Driver nvml.Status
	Shares []nvml.Share // of the last sample
	// Capacity is how many tokens an instance's pools could hold at most.
	Capacity map[string]float64
}

// The closed sets of what is told of GPUs. A GPU and a MIG instance have the names
// that the driver gives them; there is never a process.
var (
	ofGPU    = Label{Name: "gpu"}
	ofMIG    = Label{Name: "mig"}
	ofOwner  = Label{"owner", named(nvml.NumClass)}
	ofDriver = Label{"state", named(nvml.NumState)}
	ofXID    = Label{"xid", []string{"13", "31", "48", "74", "79", "94", "95", "other"}}
	ofError  = Label{"errors", []string{"corrected", "uncorrected"}}
)

var (
	gpuMemory    = gauge("gpu_memory_bytes", "Memory of the GPU, or of the MIG instance.", ofGPU, ofMIG)
	gpuUsed      = gauge("gpu_memory_used_bytes", "Memory in use, by whose it is: of engines' processes, of those that are allowed, of neither, of processes that cannot be told, and of none that the driver lists.", ofGPU, ofMIG, ofOwner)
	gpuReadable  = gauge("gpu_readable", "1 while the driver tells of the GPU; 0 where it did once and does not now.", ofGPU)
	gpuCapacity  = gauge("gpu_capacity_tokens", "Tokens that the engine's pools could hold at most, by what a token takes, if they had all memory of the GPUs that it uses but what processes of others hold. A context that is longer can never be served from it.", ofEngine)
	gpuXIDs      = counter("gpu_xid_errors_total", "Errors of the GPU (XID) that the driver told since the sidecar began.", ofGPU, ofXID)
	gpuECC       = gauge("gpu_ecc_errors", "Memory errors since the driver was loaded, as it counts them.", ofGPU, ofError)
	driverState  = gauge("driver_state", "1 for how the driver was read last.", ofDriver)
	driverAge    = gauge("driver_sample_age_seconds", "Time since the last whole sample of the driver.")
	driverStarts = counter("driver_helper_starts_total", "Times that kvwitness-nvml was started: more than one is a replacement.")
)

// gpus says how the driver stands, and whose the memory of the GPUs is.
func (e emitter) gpus() {
	if e.GPUs == nil {
		return
	}
	s := &e.GPUs.Driver
	for state := range nvml.NumState {
		e.put(driverState, number(s.State == state), state.String())
	}
	e.put(driverStarts, float64(s.Starts))
	for _, g := range s.GPUs {
		e.put(gpuReadable, number(g.State == nvml.OK), g.UUID)
		e.xids(&g)
	}
	if s.Last == nil {
		return
	}
	e.put(driverAge, e.since(s.Last.Ended))
	for i := range s.Last.Devices {
		e.device(&s.Last.Devices[i])
	}
	for i := range e.GPUs.Shares {
		share := &e.GPUs.Shares[i]
		gpu, mig := whole(share.UUID, share.Parent)
		for c := range nvml.NumClass {
			if share.Known {
				e.put(gpuUsed, float64(share.Bytes[c]), gpu, mig, c.String())
			}
		}
	}
}

// whole is the GPU, and the MIG instance of it, of a device; empty: all of it.
func whole(uuid, parent string) (gpu, mig string) {
	if parent != "" {
		return parent, uuid
	}
	return uuid, ""
}

func (e emitter) device(d *nvml.Device) {
	if d.UUID == "" {
		return
	}
	gpu, mig := whole(d.UUID, d.Parent)
	if d.Total != nil {
		e.put(gpuMemory, float64(*d.Total), gpu, mig)
	}
	for i, n := range [...]*uint64{d.Corrected, d.Uncorrected} {
		if n != nil && mig == "" {
			e.put(gpuECC, float64(*n), gpu, ofError.Values[i])
		}
	}
}

func (e emitter) xids(g *nvml.GPU) {
	counts := make([]uint64, len(ofXID.Values))
	for _, x := range g.XIDs {
		counts[xidIndex(x.Code)] += x.Count
	}
	for i, n := range counts {
		e.put(gpuXIDs, float64(n), g.UUID, ofXID.Values[i])
	}
}

// xidIndex is the place of a code in the closed set.
func xidIndex(code uint64) int {
	last := len(ofXID.Values) - 1
	for i, known := range ofXID.Values[:last] {
		if known == strconv.FormatUint(code, 10) {
			return i
		}
	}
	return last
}
