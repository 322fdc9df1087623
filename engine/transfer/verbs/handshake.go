package verbs

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net/netip"
	"slices"

	"github.com/kvwitness/kvwitness/engine/transfer"
)

// The handshake is framed as Mooncake's is: the length of what follows as a u64,
// little-endian, a byte of kind, and JSON.
const (
	kindConnect = 0
	// maxHello and maxAnswer bound what is read of the other side; an answer names
	// each region.
	maxHello  = 4 << 10
	maxAnswer = 4 << 20

	version = 1
	maxMTU  = 5 // enum ibv_mtu: 4096
	maxQPN  = 1<<24 - 1
)

// end is one side's queue pair, as it tells of it.
type end struct {
	Version int        `json:"version"`
	QPN     uint32     `json:"qp_num"`
	PSN     uint32     `json:"psn"`
	GID     netip.Addr `json:"gid"`
	LID     uint16     `json:"lid"`
	MTU     uint32     `json:"mtu"` // enum ibv_mtu
}

func (e end) check() error {
	if e.Version != version || e.QPN > maxQPN || e.PSN > maxQPN || e.MTU < 1 || e.MTU > maxMTU || !e.GID.Is6() || e.GID.Zone() != "" {
		return fmt.Errorf("a queue pair of version %d, number %d, MTU %d: %w", e.Version, e.QPN, e.MTU, ErrHandshake)
	}
	return nil
}

// reach is a region of the receiver, and the key to it.
type reach struct {
	Base  uint64 `json:"addr"`
	Bytes uint64 `json:"length"`
	RKey  uint32 `json:"rkey"`
}

// answer is what a receiver tells.
type answer struct {
	end
	Regions []reach `json:"regions"`
}

func writeMessage(w io.Writer, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("write a handshake: %w", err)
	}
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(body)+1))
	if _, err = w.Write(append(append(b, kindConnect), body...)); err != nil {
		return fmt.Errorf("write a handshake: %w", err)
	}
	return nil
}

func readMessage(r io.Reader, most uint64, v any) error {
	var head [9]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return fmt.Errorf("read a handshake: %w: %w", err, ErrHandshake)
	}
	n := binary.LittleEndian.Uint64(head[:8])
	if n < 1 || n > most || head[8] != kindConnect {
		return fmt.Errorf("read a handshake of kind %d, %d bytes, at most %d: %w", head[8], n, most, ErrHandshake)
	}
	body := make([]byte, n-1)
	if _, err := io.ReadFull(r, body); err != nil {
		return fmt.Errorf("read a handshake: %w: %w", err, ErrHandshake)
	}
	if err := json.Unmarshal(body, v); err != nil {
		return fmt.Errorf("read a handshake: %v: %w", err, ErrHandshake)
	}
	return nil
}

func readHello(r io.Reader) (e end, err error) {
	if err = readMessage(r, maxHello, &e); err == nil {
		err = e.check()
	}
	return e, err
}

// readAnswer reads what a receiver tells, its regions in the order of addresses.
func readAnswer(r io.Reader) (a answer, err error) {
	if err = readMessage(r, maxAnswer, &a); err != nil {
		return a, err
	}
	if err = a.check(); err != nil {
		return a, err
	}
	if len(a.Regions) > transfer.MaxRegions {
		return a, fmt.Errorf("%d regions, at most %d: %w", len(a.Regions), transfer.MaxRegions, ErrHandshake)
	}
	slices.SortFunc(a.Regions, func(x, y reach) int {
		switch {
		case x.Base < y.Base:
			return -1
		case x.Base > y.Base:
			return 1
		}
		return 0
	})
	return a, nil
}

// key is that of the region which holds all of [addr, addr+size).
func (a *answer) key(addr, size uint64) (uint32, error) {
	i, exact := slices.BinarySearchFunc(a.Regions, addr, func(r reach, addr uint64) int {
		switch {
		case r.Base < addr:
			return -1
		case r.Base > addr:
			return 1
		}
		return 0
	})
	if !exact {
		i--
	}
	// No sum of what a peer says is formed: it could wrap.
	if i < 0 || addr-a.Regions[i].Base >= a.Regions[i].Bytes || size > a.Regions[i].Bytes-(addr-a.Regions[i].Base) {
		return 0, fmt.Errorf("write %d bytes to %#x: %w: %w", size, addr, transfer.ErrOutside, transfer.ErrRefused)
	}
	return a.Regions[i].RKey, nil
}
