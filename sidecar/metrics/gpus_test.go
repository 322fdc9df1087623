package metrics

import (
	"strings"
	"testing"

	"github.com/kvwitness/kvwitness/sidecar/source/nvml"
)

func bytes(n uint64) *uint64 { return &n }

// gpus is a node with a GPU that is split, and one that is not there any more.
func gpus() *GPUs {
	last := &nvml.Sample{Ended: 4e9, State: nvml.OK, Devices: []nvml.Device{
		{UUID: "gpu-0", State: nvml.OK, Split: true, Total: bytes(80), Corrected: bytes(3), Uncorrected: bytes(0)},
		{UUID: "mig-0", Parent: "gpu-0", State: nvml.OK, Listed: nvml.OK, Total: bytes(20), Processes: []nvml.Process{{PID: 4711, Bytes: bytes(7)}}},
		{State: nvml.Lost},
	}}
	return &GPUs{
		Driver: nvml.Status{State: nvml.OK, Last: last, Starts: 2, GPUs: []nvml.GPU{
			{UUID: "gpu-0", State: nvml.OK, XIDs: []nvml.XID{{Code: 79, Count: 2}, {Code: 1, Count: 1}, {Code: 1 << 60, Count: 4}}},
			{UUID: "gpu-1", State: nvml.Lost},
		}},
		Capacity: map[string]float64{"instance-0": 1280},
		Shares:   []nvml.Share{{UUID: "gpu-0"}, {UUID: "mig-0", Parent: "gpu-0", Known: true, Bytes: [nvml.NumClass]uint64{nvml.Engine: 7}}},
	}
}

// values are the series of a reading with their values.
func values(t *testing.T, r Reading) map[string]float64 {
	t.Helper()
	all := map[string]float64{}
	for _, f := range gather(t, r) {
		for _, m := range f.GetMetric() {
			name := strings.TrimPrefix(f.GetName(), Prefix)
			for _, l := range m.GetLabel() {
				name += " " + l.GetName() + "=" + l.GetValue()
			}
			all[name] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
	}
	return all
}

func TestGPUsAreToldByTheirNames(t *testing.T) {
	all := values(t, Reading{Now: 5e9, GPUs: gpus()})
	for name, want := range map[string]float64{
		"gpu_memory_bytes gpu=gpu-0 mig=": 80, "gpu_memory_bytes gpu=gpu-0 mig=mig-0": 20,
		"gpu_memory_used_bytes gpu=gpu-0 mig=mig-0 owner=engine": 7, "gpu_memory_used_bytes gpu=gpu-0 mig=mig-0 owner=foreign": 0,
		"gpu_readable gpu=gpu-0": 1, "gpu_readable gpu=gpu-1": 0, "driver_state state=ok": 1, "driver_state state=hangs": 0,
		"gpu_xid_errors_total gpu=gpu-0 xid=79": 2, "gpu_xid_errors_total gpu=gpu-0 xid=other": 5, "gpu_xid_errors_total gpu=gpu-1 xid=79": 0,
		"gpu_ecc_errors errors=corrected gpu=gpu-0": 3, "driver_sample_age_seconds": 1, "driver_helper_starts_total": 2,
	} {
		if got, there := all[name]; !there || got != want {
			t.Errorf("%s is %v, %v; want %v", name, got, there, want)
		}
	}
	for name := range all {
		if strings.Contains(name, "4711") || strings.HasPrefix(name, "gpu_memory_used_bytes gpu=gpu-0 mig= ") {
			t.Errorf("told: %s", name)
		}
	}
}

// Without a driver only that is told.
func TestWithoutADriverNoGPUIsTold(t *testing.T) {
	for name := range values(t, Reading{GPUs: &GPUs{Driver: nvml.Status{State: nvml.NoDriver}}}) {
		if strings.HasPrefix(name, "gpu_") || strings.HasPrefix(name, "driver_sample") {
			t.Errorf("told: %s", name)
		}
	}
	if _, told := values(t, Reading{})["driver_state state=no driver"]; told {
		t.Error("nobody asks, and something is told")
	}
}
