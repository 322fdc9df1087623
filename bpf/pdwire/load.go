//go:build amd64

package pdwire

import "github.com/kvwitness/kvwitness/bpf/load"

// Counters, in the order of load.Probe.Counters.
const (
	RecordsSent     = iota // records that the ring took
	RecordsLost            // records for which it had no room
	ConnectionsLost        // connections beyond those that can be followed
	BytesCut               // bytes of bodies that were not handed on
)

// Open loads and attaches the probe.
func Open(o load.Options) (*load.Probe, error) {
	spec, err := loadProbe()
	if err != nil {
		return nil, err
	}
	return load.Open(spec, load.Program{Name: probeProgPdwireExit, Tracepoint: "sys_exit"}, o)
}
