//go:build linux && amd64

package verbs

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path"

	"github.com/kvwitness/kvwitness/bpf/target"
	source "github.com/kvwitness/kvwitness/sidecar/source/verbs"
)

// MaxScan bounds the memory of a process that FindContexts looks through.
const MaxScan = 4 << 30

// Offsets in struct ibv_context, rdma-core v44 to v65, x86-64.
const (
	contextPollCQ    = 96
	contextPostSend  = 208
	contextCmdFD     = 264
	contextABICompat = 320
	contextLength    = 328
)

// FindContexts looks for devices that a process opened before it was watched:
// structures in its writable memory whose abi_compat is all ones and whose
// post_send points to where a function of a verbs provider starts. It reads up
// to MaxScan bytes, at a page's cost each; an error says that not all was read,
// and what was found until then is returned with it. What it does not find is
// not seen: the process's data path is blind until it opens a device anew.
func FindContexts(pid int) ([]source.Context, error) {
	maps, err := target.Mappings(pid)
	if err != nil {
		return nil, err
	}
	mem, err := os.Open(fmt.Sprintf("/proc/%d/mem", pid))
	if err != nil {
		return nil, fmt.Errorf("read the memory of process %d: %w", pid, err)
	}
	defer mem.Close()
	s := scan{pid: pid, maps: maps, providers: providers(maps), left: MaxScan}
	if len(s.providers) == 0 {
		return nil, nil
	}
	for _, m := range maps {
		// Contexts are allocated: they lie in memory that no file stands behind.
		if m.Writable && m.Inode == 0 && path.Base(m.Path) != "[stack]" {
			s.region(mem, m)
		}
	}
	return s.found, s.err
}

// providers are the executable mappings of verbs providers.
func providers(maps []target.Mapping) []target.Mapping {
	var all []target.Mapping
	for _, m := range maps {
		if m.Executable && target.IsProvider(m.Path) {
			all = append(all, m)
		}
	}
	return all
}

type scan struct {
	pid       int
	maps      []target.Mapping
	providers []target.Mapping
	left      uint64
	found     []source.Context
	err       error
}

// errScanEnds says that memory was left unread.
var errScanEnds = errors.New("more writable memory than is looked through")

// region looks through one mapping, in pieces that overlap by a context.
func (s *scan) region(mem io.ReaderAt, m target.Mapping) {
	const piece = 1 << 20
	buf := make([]byte, piece+contextLength)
	for at := m.Start; at < m.End; at += piece {
		if s.left < piece {
			s.err = fmt.Errorf("process %d: %w (%d GiB)", s.pid, errScanEnds, MaxScan>>30)
			return
		}
		s.left -= piece
		want := min(m.End-at, uint64(len(buf)))
		n, err := mem.ReadAt(buf[:want], int64(at))
		if n == 0 && err != nil {
			return // unmapped meanwhile, or memory that cannot be read (a device's)
		}
		s.piece(buf[:n], at)
	}
}

func (s *scan) piece(data []byte, at uint64) {
	for off := 0; off+contextLength <= len(data); off += 8 {
		if binary.LittleEndian.Uint64(data[off+contextABICompat:]) != ^uint64(0) {
			continue
		}
		send := binary.LittleEndian.Uint64(data[off+contextPostSend:])
		if !s.inProvider(send) {
			continue
		}
		c := source.Context{
			Head: source.Head{PID: uint32(s.pid)}, Context: at + uint64(off), Known: true,
			PostSend: send, PollCQ: binary.LittleEndian.Uint64(data[off+contextPollCQ:]),
			FD: int32(binary.LittleEndian.Uint32(data[off+contextCmdFD:])),
		}
		for _, o := range s.found {
			if o.Context == c.Context {
				return // pieces overlap
			}
		}
		if l, _, err := provider(s.pid, s.maps, send); err == nil {
			_ = l.Close() // it was only read
			s.found = append(s.found, c)
		}
	}
}

func (s *scan) inProvider(addr uint64) bool {
	for _, m := range s.providers {
		if m.Start <= addr && addr < m.End {
			return true
		}
	}
	return false
}
