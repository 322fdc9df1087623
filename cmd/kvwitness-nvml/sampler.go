//go:build linux && cgo

package main

import (
	"context"
	"strconv"
	"strings"
	"time"

	driver "github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/kvwitness/kvwitness/sidecar/source/nvml"
)

// sampler asks the library, one call after the other.
type sampler struct {
	lib     library
	watch   *watchdog
	symbols map[string]bool // functions of the library that were looked for

	begun  bool // the library is initialised
	old    bool // the driver lists processes in another form than it says
	events driver.EventSet
	waits  bool // for events
	heeded map[string]bool
	xids   map[string][]nvml.XID
	pids   int // that were listed in this sample
}

// sample asks for everything once.
func (p *sampler) sample() *nvml.Sample {
	s := fresh()
	s.State = nvml.OK
	p.pids = 0
	if !p.begun && !p.begin(s) {
		return s
	}
	version, r := ask(p, "nvmlSystemGetDriverVersion", "", p.lib.SystemGetDriverVersion)
	if r == driver.SUCCESS {
		s.Driver, p.old = version, untrusted(version)
	}
	p.confidential(s)
	count, r := ask(p, "nvmlDeviceGetCount", "", p.lib.DeviceGetCount)
	switch {
	case r != driver.SUCCESS:
		p.failed(s, "nvmlDeviceGetCount", r)
		return s
	case count <= 0:
		s.State = nvml.NoGPU
		return s
	}
	s.Count = min(count, nvml.MaxGPUs)
	for i := range s.Count {
		p.gpu(s, i)
	}
	return s
}

// begin initialises the library.
func (p *sampler) begin(s *nvml.Sample) bool {
	p.watch.begin("nvmlInit", "")
	r := p.lib.Init()
	p.watch.end()
	if r != driver.SUCCESS {
		p.failed(s, "nvmlInit", r)
		return false
	}
	p.begun, p.heeded = true, map[string]bool{}
	if set, r := ask(p, "nvmlEventSetCreate", "", p.lib.EventSetCreate); r == driver.SUCCESS {
		p.events, p.waits = set, p.has("nvmlEventSetWait")
	}
	return true
}

// failed notes that the library as a whole cannot be asked. A driver that went away
// under it is asked no further: the next process begins anew.
func (p *sampler) failed(s *nvml.Sample, call string, r driver.Return) {
	s.State, s.Call, s.Said = stateOf(r), call, said(r)
	p.begun = false
}

// untrusted are the first drivers of R535, which list processes in entries that are
// longer than the version that they go by has them: reading a list would corrupt
// memory.
func untrusted(version string) bool {
	minor, is := strings.CutPrefix(version, "535.")
	if !is {
		return false
	}
	minor, _, _ = strings.Cut(minor, ".")
	n, err := strconv.Atoi(minor)
	return err != nil || n < 98
}

func (p *sampler) confidential(s *nvml.Sample) {
	state, r := ask(p, "nvmlSystemGetConfComputeState", "", p.lib.SystemGetConfComputeState)
	switch {
	case r != driver.SUCCESS:
	case state.CcFeature == driver.CC_SYSTEM_FEATURE_DISABLED:
		s.Confidential = "off"
	case state.DevToolsMode == driver.CC_SYSTEM_DEVTOOLS_MODE_ON:
		s.Confidential = "on, open to tools"
	default:
		s.Confidential = "on"
	}
}

// gpu adds a GPU and its MIG instances.
func (p *sampler) gpu(s *nvml.Sample, index int) {
	name := "GPU " + strconv.Itoa(index)
	handle, r := ask(p, "nvmlDeviceGetHandleByIndex", name, func() (driver.Device, driver.Return) { return p.lib.DeviceGetHandleByIndex(index) })
	if r != driver.SUCCESS {
		s.Devices = append(s.Devices, nvml.Device{State: stateOf(r), Call: "nvmlDeviceGetHandleByIndex", Said: name + ": " + said(r)})
		return
	}
	d := nvml.Device{State: nvml.OK}
	p.identify(&d, handle, name)
	if d.State == nvml.OK {
		p.memory(&d, handle)
	}
	var slots int
	if d.State == nvml.OK {
		p.errors(&d, handle)
		slots = p.split(&d, handle)
	}
	if d.State == nvml.OK && !d.Split {
		p.processes(&d, handle)
	}
	d.XIDs = p.xids[d.UUID]
	s.Devices = append(s.Devices, d)
	for i := range slots {
		if len(s.Devices) < nvml.MaxDevices-nvml.MaxGPUs {
			p.instance(s, handle, &d, i)
		}
	}
}

// instance adds the MIG instance of a place, if there is one.
func (p *sampler) instance(s *nvml.Sample, gpu driver.Device, of *nvml.Device, place int) {
	const call = "nvmlDeviceGetMigDeviceHandleByIndex"
	name := "MIG " + strconv.Itoa(place) + " of " + of.UUID
	handle, r := ask(p, call, name, func() (driver.Device, driver.Return) { return gpu.GetMigDeviceHandleByIndex(place) })
	if r == driver.ERROR_NOT_FOUND {
		return
	}
	d := nvml.Device{State: stateOf(r), Parent: of.UUID}
	if r != driver.SUCCESS {
		d.Call, d.Said = call, name+": "+said(r)
		s.Devices = append(s.Devices, d)
		return
	}
	p.identify(&d, handle, name)
	if d.State == nvml.OK {
		p.memory(&d, handle)
	}
	if d.State == nvml.OK {
		p.processes(&d, handle)
	}
	s.Devices = append(s.Devices, d)
}

// note has a device take over the state of a call that failed. What is not supported
// is left out and no failure.
func note(d *nvml.Device, call string, r driver.Return) bool {
	if r == driver.SUCCESS {
		return true
	}
	if state := stateOf(r); state != nvml.Unsupported && d.State == nvml.OK {
		d.State, d.Call, d.Said = state, call, said(r)
	}
	return false
}

// await lets time pass until then, and takes in the errors of GPUs meanwhile.
func (p *sampler) await(ctx context.Context, until time.Duration) {
	for ctx.Err() == nil {
		left := until - time.Duration(now())
		if left <= 0 {
			return
		}
		if !p.waits || len(p.heeded) == 0 {
			select {
			case <-ctx.Done():
			case <-time.After(left):
			}
			return
		}
		p.event(min(left, time.Second, p.watch.deadline/2))
	}
}

// end lets go of the library.
func (p *sampler) end() {
	p.watch.begin("nvmlShutdown", "")
	defer p.watch.end()
	p.lib.Shutdown()
}
