package pdwire

import (
	"fmt"

	"github.com/tinylib/msgp/msgp"
)

// nixlQuestion is what decode asks vLLM's NIXL side channel (REQ to ROUTER).
const nixlQuestion = "get_meta_msg"

// NixlMetadata is what prefill answers there: where its memory is. vLLM's NIXL
// connector pulls, so these are the addresses that decode READs from.
type NixlMetadata struct {
	Compatibility string   // digest of what must be equal; empty in older versions
	Engine        string   // engine_id
	BaseAddrs     []uint64 // kv_caches_base_addr: of each region
	Device        int      // device_id
	Blocks        uint64   // num_blocks
	BlockBytes    []uint64 // block_lens: bytes of one block in each region
	BlockStrides  []uint64 // block_strides: bytes from one block to the next
	Layout        string   // kv_cache_layout
	BlockTokens   int      // block_size
	Unread        int      // keys that nobody here understands
}

// ParseNixlQuestion reads a question of the side channel and returns the
// tensor-parallel rank that it asks for, -1 in the older form without one.
func ParseNixlQuestion(b []byte) (rank int, err error) {
	if string(b) == nixlQuestion {
		return -1, nil
	}
	r := &mapReader{b: b}
	if n := r.list(2); n != 2 && r.err == nil {
		r.fail(fmt.Errorf("%d values, want 2: %w", n, ErrMalformed))
	}
	if q := r.bytesOrText(); q != nixlQuestion && r.err == nil {
		r.fail(fmt.Errorf("not a question for metadata: %w", ErrUnknown))
	}
	rank = r.small(MaxRank)
	return rank, r.end("NIXL question")
}

// bytesOrText reads a short binary or text.
func (r *mapReader) bytesOrText() string {
	if r.err != nil || msgp.NextType(r.b) != msgp.BinType {
		return r.text()
	}
	v, rest, err := msgp.ReadBytesZC(r.b)
	if err != nil {
		r.malformed("bytes", err)
		return ""
	}
	if len(v) > MaxNameBytes {
		r.fail(fmt.Errorf("%d bytes, at most %d: %w", len(v), MaxNameBytes, ErrTooLarge))
		return ""
	}
	r.b = rest
	return string(v)
}

// ParseNixlMetadata reads the answer: in newer versions a map with a digest
// and the metadata as bytes within, in older ones the metadata itself.
func ParseNixlMetadata(b []byte) (*NixlMetadata, error) {
	r := &mapReader{b: b}
	m := &NixlMetadata{}
	var inner []byte
	known := false
	m.Unread = r.keys(maxKeys, func(key string) bool {
		switch key {
		case "compatibility_hash":
			m.Compatibility = r.text()
			return true
		case "agent_metadata_bytes":
			inner = r.raw()
			return true
		}
		taken := m.take(r, key)
		known = known || taken
		return taken
	})
	if err := r.end("NIXL metadata"); err != nil {
		return nil, err
	}
	if inner != nil {
		r = &mapReader{b: inner}
		m.Unread += r.keys(maxKeys, func(key string) bool {
			taken := m.take(r, key)
			known = known || taken
			return taken
		})
		if err := r.end("NIXL metadata"); err != nil {
			return nil, err
		}
	}
	if !known {
		return nil, fmt.Errorf("read NIXL metadata: %w", ErrUnknown)
	}
	return m, nil
}

func (r *mapReader) raw() []byte {
	if r.err != nil {
		return nil
	}
	v, rest, err := msgp.ReadBytesZC(r.b)
	if err != nil {
		r.malformed("bytes", err)
		return nil
	}
	r.b = rest
	return v
}

func (m *NixlMetadata) take(r *mapReader, key string) bool {
	switch key {
	case "engine_id":
		m.Engine = r.text()
	case "kv_caches_base_addr":
		m.BaseAddrs = each(r, MaxRegions, r.unsigned)
	case "device_id":
		m.Device = r.small(MaxRank)
	case "num_blocks":
		m.Blocks = r.unsigned()
	case "block_lens":
		m.BlockBytes = each(r, MaxRegions, r.unsigned)
	case "block_strides":
		m.BlockStrides = each(r, MaxRegions, r.unsigned)
	case "kv_cache_layout":
		m.Layout = r.text()
	case "block_size":
		m.BlockTokens = r.small(1 << 30)
	default:
		return false
	}
	return true
}
