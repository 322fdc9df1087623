//go:build linux && cgo

package main

import (
	"strconv"

	driver "github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/kvwitness/kvwitness/sidecar/source/nvml"
)

// library is what is asked of NVML, and no more.
type library interface {
	Init() driver.Return
	Shutdown() driver.Return
	Extensions() driver.ExtendedInterface
	SystemGetDriverVersion() (string, driver.Return)
	SystemGetConfComputeState() (driver.ConfComputeSystemState, driver.Return)
	DeviceGetCount() (int, driver.Return)
	DeviceGetHandleByIndex(index int) (driver.Device, driver.Return)
	EventSetCreate() (driver.EventSet, driver.Return)
}

// stateOf is what an answer means.
func stateOf(r driver.Return) nvml.State {
	switch r {
	case driver.SUCCESS:
		return nvml.OK
	case driver.ERROR_LIBRARY_NOT_FOUND:
		return nvml.NoDriver
	case driver.ERROR_DRIVER_NOT_LOADED:
		return nvml.NotLoaded
	case driver.ERROR_LIB_RM_VERSION_MISMATCH:
		return nvml.Differ
	case driver.ERROR_NO_PERMISSION:
		return nvml.NoPermission
	case driver.ERROR_GPU_IS_LOST, driver.ERROR_RESET_REQUIRED:
		return nvml.Lost
	case driver.ERROR_NOT_SUPPORTED, driver.ERROR_FUNCTION_NOT_FOUND, driver.ERROR_ARGUMENT_VERSION_MISMATCH:
		return nvml.Unsupported
	case driver.ERROR_NO_DATA:
		return nvml.Blank
	}
	return nvml.Failed
}

// said names an answer without asking the library, which may have failed.
func said(r driver.Return) string {
	if name, known := answers[r]; known {
		return name
	}
	return "error " + strconv.Itoa(int(r))
}

var answers = map[driver.Return]string{
	driver.ERROR_UNINITIALIZED: "uninitialized", driver.ERROR_INVALID_ARGUMENT: "invalid argument",
	driver.ERROR_NOT_SUPPORTED: "not supported", driver.ERROR_NO_PERMISSION: "no permission", driver.ERROR_NOT_FOUND: "not found",
	driver.ERROR_INSUFFICIENT_SIZE: "insufficient size", driver.ERROR_INSUFFICIENT_POWER: "insufficient power",
	driver.ERROR_DRIVER_NOT_LOADED: "driver not loaded", driver.ERROR_TIMEOUT: "timeout", driver.ERROR_IRQ_ISSUE: "interrupt issue",
	driver.ERROR_LIBRARY_NOT_FOUND: "library not found", driver.ERROR_FUNCTION_NOT_FOUND: "function not found",
	driver.ERROR_CORRUPTED_INFOROM: "corrupted infoROM", driver.ERROR_GPU_IS_LOST: "GPU is lost", driver.ERROR_RESET_REQUIRED: "reset required",
	driver.ERROR_OPERATING_SYSTEM: "refused by the operating system", driver.ERROR_LIB_RM_VERSION_MISMATCH: "driver and library versions differ",
	driver.ERROR_IN_USE: "in use", driver.ERROR_MEMORY: "out of memory", driver.ERROR_NO_DATA: "no data",
	driver.ERROR_ARGUMENT_VERSION_MISMATCH: "argument version mismatch", driver.ERROR_UNKNOWN: "unknown error",
}

// versions are what a function may be called in the library: go-nvml takes the
// latest that is there, and the loader kills the process for one that is not.
var versions = [...]string{"", "_v2", "_v3"}

// has reports whether the library has a function.
func (p *sampler) has(call string) bool {
	known, asked := p.symbols[call]
	if !asked {
		for _, v := range versions {
			known = known || p.lib.Extensions().LookupSymbol(call+v) == nil
		}
		p.symbols[call] = known
	}
	return known
}

// ask makes a call, under the eye of the watchdog.
func ask[T any](p *sampler, call, device string, do func() (T, driver.Return)) (answer T, r driver.Return) {
	if !p.has(call) {
		return answer, driver.ERROR_FUNCTION_NOT_FOUND
	}
	p.watch.begin(call, device)
	defer p.watch.end()
	return do()
}
