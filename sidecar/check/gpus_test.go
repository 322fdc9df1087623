package check

import (
	"strings"
	"testing"

	"github.com/kvwitness/kvwitness/sidecar/config"
	"github.com/kvwitness/kvwitness/sidecar/source/nvml"
)

// Promise: without a GPU that is one line and nothing is lacking; with one, each way
// not to know is a need that is not met, with its remedy.
func TestOneLineSaysHowTheGPUsStand(t *testing.T) {
	read := nvml.Status{State: nvml.OK, Last: &nvml.Sample{Driver: "550", Count: 1, Devices: []nvml.Device{{State: nvml.OK}}}}
	if n := gpus(&config.GPUs{Mode: config.GPUsRequired}, &read, true); n.State != Met || !strings.Contains(n.Found, "1 of 1 GPUs") {
		t.Errorf("%+v", n)
	}
	for state := range nvml.NumState {
		if state == nvml.OK {
			continue
		}
		s := nvml.Status{State: state}
		for _, present := range []bool{false, true} {
			for _, mode := range []string{config.GPUsAuto, config.GPUsRequired} {
				n := gpus(&config.GPUs{Mode: mode}, &s, present)
				none := state == nvml.NoHelper || state == nvml.NotBuilt || state == nvml.NoDriver || state == nvml.NotLoaded || state == nvml.NoGPU
				want := Unmet
				if none && !present && mode == config.GPUsAuto {
					want = Met
				}
				if n.State != want || !strings.Contains(n.Found, state.String()) || want == Unmet && n.Remedy == "" {
					t.Errorf("%s, module loaded: %t, %s: %+v", state, present, mode, n)
				}
			}
		}
	}
	if n := GPUs(t.Context(), &config.GPUs{Mode: config.GPUsOff}, ""); n.State != Met {
		t.Errorf("off: %+v", n)
	}
	if n := GPUs(t.Context(), &config.GPUs{Mode: config.GPUsRequired}, "/nowhere/kvwitness-nvml"); n.State != Unmet || !strings.Contains(n.Remedy, "install kvwitness-nvml") {
		t.Errorf("required: %+v", n)
	}
}
