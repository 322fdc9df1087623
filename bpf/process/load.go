//go:build amd64

package process

import (
	"encoding/binary"

	"github.com/kvwitness/kvwitness/bpf/load"
)

// Counters, in the order of load.Probe.Counters.
const (
	RecordsSent = iota // records that the ring took
	RecordsLost        // records for which it had no room
)

// recordBytes is the length of a record.
const recordBytes = 16

// Open loads and attaches the probe.
func Open(o load.Options) (*load.Probe, error) {
	spec, err := loadProbe()
	if err != nil {
		return nil, err
	}
	return load.Open(spec, load.Program{Name: probeProgProcessExec, Tracepoint: "sched_process_exec"}, o)
}

// Started reads a record: the process that runs a new program, and since when, in
// ns of the monotonic clock.
func Started(record []byte) (t int64, pid int, ok bool) {
	if len(record) != recordBytes {
		return 0, 0, false
	}
	return int64(binary.NativeEndian.Uint64(record)), int(binary.NativeEndian.Uint32(record[8:])), true
}
