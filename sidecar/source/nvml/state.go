package nvml

import (
	"errors"
	"fmt"
)

// State is how a reading of the driver went.
type State uint8

// The states. Each needs another remedy.
const (
	Unread       State = iota // not asked yet
	OK                        // it was read
	NoHelper                  // kvwitness-nvml is not installed
	NotBuilt                  // kvwitness-nvml was built without cgo
	NoDriver                  // there is no driver library
	NotLoaded                 // there is a library, and the kernel's module is not loaded
	Differ                    // driver and library are of different versions
	NoPermission              // the process may not ask
	NoGPU                     // the driver counts none
	Lost                      // the GPU fell off the bus, or needs a reset
	Blank                     // the driver answers without an answer
	Unsupported               // this driver or GPU cannot tell
	Untrusted                 // the driver is known to answer wrongly
	Disputed                  // two of its answers contradict each other
	Hangs                     // a call does not return
	Died                      // kvwitness-nvml ended
	Failed                    // any other error
	NumState
)

var states = [NumState]struct{ name, remedy string }{
	Unread:       {"not read", "wait for the first sample"},
	OK:           {"ok", ""},
	NoHelper:     {"no helper", "install kvwitness-nvml beside kvwitness"},
	NotBuilt:     {"built without cgo", "build kvwitness-nvml with CGO_ENABLED=1"},
	NoDriver:     {"no driver", "on a node with NVIDIA GPUs install the driver; in a container ask for the capability utility (NVIDIA_DRIVER_CAPABILITIES)"},
	NotLoaded:    {"driver not loaded", "load the kernel module: modprobe nvidia"},
	Differ:       {"driver and library differ", "the driver was updated under a running kernel module: reload the module or reboot, and restart containers"},
	NoPermission: {"no permission", "let the sidecar open /dev/nvidiactl and /dev/nvidia*"},
	NoGPU:        {"no gpu", "hand the container the GPUs of the node (NVIDIA_VISIBLE_DEVICES=all)"},
	Lost:         {"gpu lost", "reset the GPU or reboot the node; dmesg has its XID"},
	Blank:        {"reads blank", "restart the container if the node reloaded systemd; hand over the node's process namespace if only processes are missing"},
	Unsupported:  {"not supported", "this driver or GPU does not tell; nothing is concluded from it"},
	Untrusted:    {"not trusted", "update the driver: this version answers in another form than it says"},
	Disputed:     {"contradictory", "nothing is concluded while the driver contradicts itself"},
	Hangs:        {"hangs", "look at dmesg; the call is given up and the process replaced"},
	Died:         {"died", "see the log for what kvwitness-nvml said last"},
	Failed:       {"failed", "if the driver says unknown error after a systemd reload, restart the container"},
}

func (s State) String() string { return states[s%NumState].name }

// Remedy is what to do about it; empty: nothing.
func (s State) Remedy() string { return states[s%NumState].remedy }

// ErrFormat is returned for what is no sample.
var ErrFormat = errors.New("malformed sample of kvwitness-nvml")

// MarshalText writes the state's name.
func (s State) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads a state's name.
func (s *State) UnmarshalText(text []byte) error {
	for i := range NumState {
		if states[i].name == string(text) {
			*s = i
			return nil
		}
	}
	return fmt.Errorf("read a state of %d bytes: %w", len(text), ErrFormat)
}
