//go:build linux && cgo

package main

import (
	"cmp"
	"slices"
	"time"

	driver "github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/kvwitness/kvwitness/sidecar/source/nvml"
)

// blank is what stands for a number that the driver does not have.
const blank = ^uint64(0)

// known is a number that the driver has.
func known(n uint64) *uint64 {
	if n == blank {
		return nil
	}
	return &n
}

func (p *sampler) identify(d *nvml.Device, handle driver.Device, name string) {
	uuid, r := ask(p, "nvmlDeviceGetUUID", name, handle.GetUUID)
	if r != driver.SUCCESS {
		d.State, d.Call, d.Said = stateOf(r), "nvmlDeviceGetUUID", name+": "+said(r)
		if d.State == nvml.OK || d.State == nvml.Unsupported {
			d.State = nvml.Failed
		}
		return
	}
	if d.UUID = uuid; uuid == "" {
		d.State, d.Call, d.Said = nvml.Blank, "nvmlDeviceGetUUID", name
	}
	if model, r := ask(p, "nvmlDeviceGetName", uuid, handle.GetName); r == driver.SUCCESS {
		d.Name = model
	}
}

func (p *sampler) memory(d *nvml.Device, handle driver.Device) {
	const call = "nvmlDeviceGetMemoryInfo"
	m, r := ask(p, call, d.UUID, handle.GetMemoryInfo)
	switch {
	case r == driver.ERROR_NOT_SUPPORTED: // memory that is the host's
	case !note(d, call, r):
	case m.Total == 0, m.Total == blank: // no GPU has none: it was not read
		d.State, d.Call = nvml.Blank, call
	case m.Used == 0 && len(p.xids[d.UUID]) > 0: // nor is none of it used, after an error
		d.State, d.Call = nvml.Blank, call
	case m.Used != blank && m.Used > m.Total:
		d.State, d.Call, d.Said = nvml.Disputed, call, "more is used than there is"
	default:
		d.Total, d.Used = known(m.Total), known(m.Used)
	}
	if d.State == nvml.OK {
		if b, r := ask(p, "nvmlDeviceGetBAR1MemoryInfo", d.UUID, handle.GetBAR1MemoryInfo); note(d, "nvmlDeviceGetBAR1MemoryInfo", r) {
			d.BAR1Total, d.BAR1Used = known(b.Bar1Total), known(b.Bar1Used)
		}
	}
}

// errors reads the counts of memory errors, and has the GPU tell of others.
func (p *sampler) errors(d *nvml.Device, handle driver.Device) {
	const call = "nvmlDeviceGetTotalEccErrors"
	for kind, into := range map[driver.MemoryErrorType]**uint64{
		driver.MEMORY_ERROR_TYPE_CORRECTED: &d.Corrected, driver.MEMORY_ERROR_TYPE_UNCORRECTED: &d.Uncorrected,
	} {
		n, r := ask(p, call, d.UUID, func() (uint64, driver.Return) { return handle.GetTotalEccErrors(kind, driver.VOLATILE_ECC) })
		if note(d, call, r) {
			*into = known(n)
		}
	}
	if !p.waits || p.heeded[d.UUID] || d.State != nvml.OK {
		return
	}
	_, r := ask(p, "nvmlDeviceRegisterEvents", d.UUID, func() (struct{}, driver.Return) {
		return struct{}{}, handle.RegisterEvents(driver.EventTypeXidCriticalError, p.events)
	})
	if r == driver.SUCCESS {
		p.heeded[d.UUID] = true
	}
}

// event waits for an error of a GPU.
func (p *sampler) event(wait time.Duration) {
	const call = "nvmlEventSetWait"
	e, r := ask(p, call, "", func() (driver.EventData, driver.Return) { return p.events.Wait(uint32(wait.Milliseconds()) + 1) })
	if r == driver.ERROR_TIMEOUT {
		return
	}
	if r != driver.SUCCESS {
		p.waits = false // what failed once would be asked without a pause
		return
	}
	if e.EventType != driver.EventTypeXidCriticalError || e.Device == nil {
		return
	}
	uuid, r := ask(p, "nvmlDeviceGetUUID", "", e.Device.GetUUID)
	if r != driver.SUCCESS || !p.heeded[uuid] {
		return
	}
	all := p.xids[uuid]
	at := slices.IndexFunc(all, func(x nvml.XID) bool { return x.Code == e.EventData })
	switch {
	case at >= 0:
		all[at].Count++
	case len(all) < nvml.MaxXIDs:
		p.xids[uuid] = append(all, nvml.XID{Code: e.EventData, Count: 1})
	default:
		all[nvml.MaxXIDs-1].Count++
	}
}

// split reports how many places for MIG instances a GPU has that is split.
func (p *sampler) split(d *nvml.Device, handle driver.Device) (places int) {
	const modeCall, countCall = "nvmlDeviceGetMigMode", "nvmlDeviceGetMaxMigDeviceCount"
	mode, r := ask(p, modeCall, d.UUID, func() (int, driver.Return) {
		mode, _, r := handle.GetMigMode()
		return mode, r
	})
	if !note(d, modeCall, r) || mode != driver.DEVICE_MIG_ENABLE {
		return 0
	}
	d.Split = true
	places, r = ask(p, countCall, d.UUID, handle.GetMaxMigDeviceCount)
	if r != driver.SUCCESS {
		d.State, d.Call, d.Said = nvml.Failed, countCall, said(r) // its instances are not known
		return 0
	}
	const most = 16
	return min(max(places, 0), most)
}

// lists are the calls that list processes: one may be in several.
var lists = []struct {
	call string
	of   func(driver.Device) ([]driver.ProcessInfo, driver.Return)
}{
	{"nvmlDeviceGetComputeRunningProcesses", func(d driver.Device) ([]driver.ProcessInfo, driver.Return) { return d.GetComputeRunningProcesses() }},
	{"nvmlDeviceGetGraphicsRunningProcesses", func(d driver.Device) ([]driver.ProcessInfo, driver.Return) { return d.GetGraphicsRunningProcesses() }},
	{"nvmlDeviceGetMPSComputeRunningProcesses", func(d driver.Device) ([]driver.ProcessInfo, driver.Return) {
		return d.GetMPSComputeRunningProcesses()
	}},
}

// processes joins the lists. The compute list must be there; the others may not be
// supported.
func (p *sampler) processes(d *nvml.Device, handle driver.Device) {
	if p.old {
		d.Listed = nvml.Untrusted
		return
	}
	d.Listed = nvml.OK
	held := map[uint32]*uint64{}
	for i, l := range lists {
		all, r := ask(p, l.call, d.UUID, func() ([]driver.ProcessInfo, driver.Return) { return l.of(handle) })
		if r != driver.SUCCESS {
			if state := stateOf(r); state != nvml.Unsupported || i == 0 {
				p.unlisted(d, state, l.call, r)
			}
			if d.State == nvml.Lost {
				return
			}
			continue
		}
		for _, one := range all {
			before, twice := held[one.Pid]
			bytes := holding(one.UsedGpuMemory)
			if twice && before != nil && bytes != nil && *before != *bytes && d.Listed == nvml.OK {
				d.Listed, d.Call, d.Said = nvml.Disputed, l.call, "a process holds another amount by another list"
			}
			if !twice || before == nil {
				held[one.Pid] = bytes
			}
		}
	}
	p.keep(d, held)
}

// holding is what a process holds. One that is listed holds something: 0 is what is
// said after an error of the GPU, and not known.
func holding(bytes uint64) *uint64 {
	if bytes == 0 {
		return nil
	}
	return known(bytes)
}

func (p *sampler) unlisted(d *nvml.Device, state nvml.State, call string, r driver.Return) {
	if d.Listed = state; state == nvml.Lost {
		d.State = state
	}
	d.Call, d.Said = call, said(r)
}

// keep makes the processes a device's, by number.
func (p *sampler) keep(d *nvml.Device, held map[uint32]*uint64) {
	var sum uint64
	for pid, bytes := range held {
		if p.pids == nvml.MaxProcesses {
			d.Listed, d.Said = nvml.Failed, "there are more processes than are taken"
			break
		}
		p.pids++
		d.Processes = append(d.Processes, nvml.Process{PID: pid, Bytes: bytes})
		if bytes != nil {
			sum += min(*bytes, 1<<48)
		}
	}
	slices.SortFunc(d.Processes, func(a, b nvml.Process) int { return cmp.Compare(a.PID, b.PID) })
	if d.Listed == nvml.OK && d.Total != nil && sum > *d.Total {
		d.Listed, d.Said = nvml.Disputed, "processes hold more than there is"
	}
}
