package probe

import (
	"encoding/binary"
	"fmt"
)

// Counts are what the programs in the kernel counted since they were loaded. For
// each probe: records that were handed on, records for which there was no room
// (of verbs also calls that could not be followed), and connections beyond those
// that can be followed. What is said of verbs is of UCX too.
type Counts struct {
	TransferSent, TransferLost, TransferFull uint64
	ControlSent, ControlLost, ControlFull    uint64
	ControlCut                               uint64 // bytes of bodies that stayed in the kernel
	Refused                                  uint64 // processes that match and are not watched
	VerbsSent, VerbsLost                     uint64
	VerbsUntold                              uint64 // of VerbsLost: about what lasts: contexts, queue pairs, endpoints, registrations
	CUDASent, CUDALost                       uint64
	CopiesLost                               uint64 // by calls of the CUDA driver: these are not in CUDALost
}

// Mark says how far the probe has come: every record of before T was handed on
// before it, or is counted as lost in the mark that came before its records.
type Mark struct {
	T int64 // ns, the node's monotonic clock
	// Counted is when the counts were read, in ns: what they say was lost was lost
	// before, but perhaps after records that are still to come.
	Counted int64
	Counts
}

func (m *Mark) fields() []*uint64 {
	return []*uint64{
		&m.TransferSent, &m.TransferLost, &m.TransferFull, &m.ControlSent, &m.ControlLost, &m.ControlFull, &m.ControlCut, &m.Refused,
		&m.VerbsSent, &m.VerbsLost, &m.VerbsUntold, &m.CUDASent, &m.CUDALost, &m.CopiesLost,
	}
}

// Append appends the mark to dst.
func (m *Mark) Append(dst []byte) []byte {
	dst = binary.LittleEndian.AppendUint64(dst, uint64(m.T))
	dst = binary.LittleEndian.AppendUint64(dst, uint64(m.Counted))
	for _, f := range m.fields() {
		dst = binary.LittleEndian.AppendUint64(dst, *f)
	}
	return dst
}

// ParseMark reads a mark.
func ParseMark(b []byte) (m Mark, err error) {
	fields := m.fields()
	const times = 2
	if len(b) != 8*(times+len(fields)) {
		return m, fmt.Errorf("read a mark of %d bytes: %w", len(b), ErrFormat)
	}
	m.T, m.Counted = int64(binary.LittleEndian.Uint64(b)), int64(binary.LittleEndian.Uint64(b[8:]))
	for i, f := range fields {
		*f = binary.LittleEndian.Uint64(b[8*(i+times):])
	}
	return m, nil
}

// maxRule is the longest rule that is told, in bytes.
const maxRule = 1024

// Seen is a process that is watched from now on, or not any more.
type Seen struct {
	T     int64 // ns
	PID   uint32
	Ended bool
	Rule  string // that it matched
}

// Append appends it to dst.
func (s *Seen) Append(dst []byte) []byte {
	dst = binary.LittleEndian.AppendUint64(dst, uint64(s.T))
	dst = binary.LittleEndian.AppendUint32(dst, s.PID)
	ended := byte(0)
	if s.Ended {
		ended = 1
	}
	dst = append(dst, ended)
	return append(dst, s.Rule[:min(len(s.Rule), maxRule)]...)
}

// ParseSeen reads a Seen.
func ParseSeen(b []byte) (s Seen, err error) {
	const fixed = 13
	if len(b) < fixed || len(b) > fixed+maxRule || b[12] > 1 {
		return s, fmt.Errorf("read a process of %d bytes: %w", len(b), ErrFormat)
	}
	return Seen{
		T: int64(binary.LittleEndian.Uint64(b)), PID: binary.LittleEndian.Uint32(b[8:]), Ended: b[12] == 1, Rule: string(b[fixed:]),
	}, nil
}

// Attached is whether what a process hands to a device is seen: by one of its
// contexts, or, where Context is 0, besides those that are known; or, with UCX, what
// it hands to that.
type Attached struct {
	T       int64 // ns; since then, where it is seen
	PID     uint32
	Seen    bool
	Ends    bool // how its requests end is seen too
	UCX     bool
	Context uint64 // address in the process
	Reason  string // why it is not
}

// Bits of how an Attached is told.
const (
	toldSeen = 1 << iota
	toldEnds
	toldUCX
)

// maxReason is the longest reason that is told, in bytes.
const maxReason = 512

// Append appends it to dst.
func (a *Attached) Append(dst []byte) []byte {
	dst = binary.LittleEndian.AppendUint64(dst, uint64(a.T))
	dst = binary.LittleEndian.AppendUint32(dst, a.PID)
	told := byte(0)
	if a.Seen {
		told |= toldSeen
	}
	if a.Ends {
		told |= toldEnds
	}
	if a.UCX {
		told |= toldUCX
	}
	dst = append(dst, told)
	dst = binary.LittleEndian.AppendUint64(dst, a.Context)
	return append(dst, a.Reason[:min(len(a.Reason), maxReason)]...)
}

// ParseAttached reads an Attached.
func ParseAttached(b []byte) (a Attached, err error) {
	const fixed = 21
	if len(b) < fixed || len(b) > fixed+maxReason || b[12] > toldSeen|toldEnds|toldUCX {
		return a, fmt.Errorf("read what is attached to, of %d bytes: %w", len(b), ErrFormat)
	}
	return Attached{
		T: int64(binary.LittleEndian.Uint64(b)), PID: binary.LittleEndian.Uint32(b[8:]), Seen: b[12]&toldSeen != 0, Ends: b[12]&toldEnds != 0,
		UCX: b[12]&toldUCX != 0, Context: binary.LittleEndian.Uint64(b[13:]), Reason: string(b[fixed:]),
	}, nil
}
