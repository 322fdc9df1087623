package nvml

import (
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"
)

// Version of the samples; both sides come from one build.
const Version = 1

// Bounds of a sample.
const (
	MaxLine      = 1 << 20 // bytes
	MaxGPUs      = 64
	MaxDevices   = 256  // with MIG instances
	MaxProcesses = 4096 // over all devices
	MaxXIDs      = 32   // kinds of one GPU
	maxWord      = 128  // bytes of a text
)

// maxBytes is more than a GPU has.
const maxBytes = 1 << 48

// Sample is what the driver said once. Times are of the node's monotonic clock, in ns.
type Sample struct {
	Version int    `json:"version"`
	Begun   int64  `json:"begun"`
	Ended   int64  `json:"ended"`
	State   State  `json:"state"`
	Call    string `json:"call,omitzero"` // that State is about
	Said    string `json:"said,omitzero"` // by the library, of the call
	Driver  string `json:"driver,omitzero"`
	// Confidential is whether confidential computing is on or off; empty: not said.
	Confidential string   `json:"confidential,omitzero"`
	Count        int      `json:"count"` // GPUs that the driver counts
	Devices      []Device `json:"devices,omitzero"`
}

// Device is a GPU or a MIG instance. A reading that is nil was not had.
type Device struct {
	UUID   string `json:"uuid,omitzero"`
	Parent string `json:"parent,omitzero"` // the GPU of a MIG instance
	Name   string `json:"name,omitzero"`
	State  State  `json:"state"`
	Call   string `json:"call,omitzero"`
	Said   string `json:"said,omitzero"`
	// Split into MIG instances: its processes are those of the instances.
	Split bool `json:"split,omitzero"`

	Total       *uint64 `json:"total,omitzero"` // bytes
	Used        *uint64 `json:"used,omitzero"`
	BAR1Total   *uint64 `json:"bar1_total,omitzero"`
	BAR1Used    *uint64 `json:"bar1_used,omitzero"`
	Corrected   *uint64 `json:"ecc_corrected,omitzero"` // errors since the driver was loaded
	Uncorrected *uint64 `json:"ecc_uncorrected,omitzero"`

	Listed    State     `json:"listed"` // how the list of processes was read
	Processes []Process `json:"processes,omitzero"`
	XIDs      []XID     `json:"xids,omitzero"` // since the helper began
}

// Process holds memory of a device. PID is the driver's number of it, as a rule that
// of the node.
type Process struct {
	PID   uint32  `json:"pid"`
	Bytes *uint64 `json:"bytes,omitzero"` // nil: the driver does not say
}

// XID counts the errors of a kind.
type XID struct {
	Code  uint64 `json:"code"`
	Count uint64 `json:"count"`
}

// Encode is the sample as a line.
func (s *Sample) Encode() ([]byte, error) {
	line, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("write a sample: %w", err)
	}
	return append(line, '\n'), nil
}

// Decode reads a line, and refuses what is beyond the bounds.
func Decode(line []byte) (*Sample, error) {
	if len(line) > MaxLine {
		return nil, fmt.Errorf("read a sample of %d bytes: %w", len(line), ErrFormat)
	}
	s := new(Sample)
	if err := json.Unmarshal(line, s); err != nil {
		return nil, fmt.Errorf("read a sample: %w", ErrFormat) // the cause would quote it
	}
	if err := s.check(); err != nil {
		return nil, fmt.Errorf("read a sample: %w: %w", ErrFormat, err)
	}
	return s, nil
}

func (s *Sample) check() error {
	if s.Version != Version {
		return fmt.Errorf("version %d, want %d: install both from one build", s.Version, Version)
	}
	if s.Begun < 0 || s.Ended < s.Begun || s.Count < 0 || s.Count > MaxGPUs || len(s.Devices) > MaxDevices {
		return fmt.Errorf("times %d to %d, %d of %d devices", s.Begun, s.Ended, len(s.Devices), s.Count)
	}
	processes := 0
	known := map[string]bool{}
	for i := range s.Devices {
		d := &s.Devices[i]
		processes += len(d.Processes)
		switch {
		case d.UUID != "" && (known[d.UUID] || !isID(d.UUID)), d.Parent != "" && !isID(d.Parent):
			return fmt.Errorf("device %d has no name of its own", i)
		case len(d.XIDs) > MaxXIDs || processes > MaxProcesses:
			return fmt.Errorf("device %d: %d kinds of errors, %d processes", i, len(d.XIDs), processes)
		case d.Parent != "" && !known[d.Parent]:
			return fmt.Errorf("device %d is of a GPU that is not there", i)
		}
		known[d.UUID] = true
		for _, n := range [...]*uint64{d.Total, d.Used, d.BAR1Total, d.BAR1Used} {
			if n != nil && *n > maxBytes {
				return fmt.Errorf("device %d has %d bytes", i, *n)
			}
		}
		for _, p := range d.Processes {
			if p.Bytes != nil && *p.Bytes > maxBytes {
				return fmt.Errorf("device %d: a process holds %d bytes", i, *p.Bytes)
			}
		}
		d.Name, d.Call, d.Said = word(d.Name), word(d.Call), word(d.Said)
	}
	s.Call, s.Said, s.Driver, s.Confidential = word(s.Call), word(s.Said), word(s.Driver), word(s.Confidential)
	return nil
}

// isID reports whether text may be a UUID, and so a label.
func isID(text string) bool {
	const longest = 96
	return text != "" && len(text) <= longest && !strings.ContainsFunc(text, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '/' || r == '_')
	})
}

// word is a text that may be shown: printable ASCII, not long.
func word(text string) string {
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, text)
	return text[:min(len(text), maxWord)]
}

// unexplained is how much of a device's memory may be used without a process that is
// listed: the driver keeps some for itself.
func unexplained(total uint64) uint64 { return max(2<<30, total/16) }

// Unlisted is the memory in use that no listed process holds, in bytes; ok is whether
// both are known.
func (d *Device) Unlisted() (bytes uint64, ok bool) {
	if d.Used == nil || d.Split || d.Listed != OK {
		return 0, false
	}
	var sum uint64
	for _, p := range d.Processes {
		if p.Bytes == nil {
			return 0, false
		}
		sum += *p.Bytes
	}
	return *d.Used - min(*d.Used, sum), true
}

// Whole reports whether the processes of a device are all there, each with its
// bytes, and nothing else contradicts the list.
func (d *Device) Whole() bool {
	if d.Split {
		return d.State == OK
	}
	unlisted, ok := d.Unlisted()
	return d.State == OK && ok && d.Total != nil && unlisted <= unexplained(*d.Total)
}
