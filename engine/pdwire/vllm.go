package pdwire

import (
	"fmt"

	"github.com/tinylib/msgp/msgp"
)

// VLLMTransfer asks prefill to push blocks (vLLM, Mooncake connector; decode's
// DEALER to prefill's ROUTER; one msgpack map, defaults left out). Each has all
// that is needed to map a write to a page: a late observer misses nothing.
type VLLMTransfer struct {
	Hostname       string // remote_hostname: decode's
	Port           int    // remote_port: of decode's Mooncake session
	TPSize, TPRank int    // remote_tp_size, remote_tp_rank
	Requests       []VLLMRequest
	BaseAddrs      []uint64 // kv_caches_base_addr: of each region
	BlockBytes     []uint64 // block_lens: bytes of one block in each region
	KVBlockBytes   []uint64 // kv_block_lens: of which are KV
	LayerNames     []string // registered_layer_names
	LayerIndices   []int64  // registered_layer_indices
	GroupIndices   []int64  // registered_group_indices
	Unread         int      // keys that nobody here understands
}

// VLLMRequest is one entry of req_blocks.
type VLLMRequest struct {
	ID, Transfer string
	Groups       [][]int64 // reserved block ids, a list a KV cache group
}

// VLLMReply answers a [VLLMTransfer].
type VLLMReply struct {
	Status      int // 0 finished, 1 more to come, 2 error
	OK, Failed  []string
	ReasonBytes uint64 // length of err_msg, which is not kept
	Unread      int
}

// mapReader walks msgpack with the first error kept, as fields does.
type mapReader struct {
	b     []byte
	items int // integers read so far, of all lists
	err   error
}

func (r *mapReader) fail(err error) {
	if r.err == nil {
		r.err = err
	}
}

func (r *mapReader) malformed(what string, err error) {
	r.fail(fmt.Errorf("%s: %v: %w", what, err, ErrMalformed))
}

// header reads the size of a map or list and judges it before anyone makes
// room for it: by the limit, and because each entry needs a byte at least.
func (r *mapReader) header(read func([]byte) (uint32, []byte, error), limit int) int {
	if r.err != nil {
		return 0
	}
	n, rest, err := read(r.b)
	switch {
	case err != nil:
		r.malformed("header", err)
	case int64(n) > int64(limit):
		r.fail(fmt.Errorf("%d entries, at most %d: %w", n, limit, ErrTooLarge))
	case int64(n) > int64(len(rest)):
		r.fail(fmt.Errorf("%d entries in %d bytes: %w", n, len(rest), ErrMalformed))
	default:
		r.b = rest
		return int(n)
	}
	return 0
}

func (r *mapReader) list(limit int) int { return r.header(msgp.ReadArrayHeaderBytes, limit) }

func (r *mapReader) text() string {
	if r.err != nil {
		return ""
	}
	v, rest, err := msgp.ReadStringZC(r.b)
	if err != nil {
		r.malformed("text", err)
		return ""
	}
	if len(v) > MaxNameBytes {
		r.fail(fmt.Errorf("text of %d bytes, at most %d: %w", len(v), MaxNameBytes, ErrTooLarge))
		return ""
	}
	r.b = rest
	return string(v)
}

func (r *mapReader) unsigned() uint64 {
	if r.err != nil {
		return 0
	}
	v, rest, err := msgp.ReadUint64Bytes(r.b)
	if err != nil {
		r.malformed("integer", err)
		return 0
	}
	r.b = rest
	return v
}

func (r *mapReader) signed() int64 {
	if r.err != nil {
		return 0
	}
	v, rest, err := msgp.ReadInt64Bytes(r.b)
	if err != nil {
		r.malformed("integer", err)
		return 0
	}
	r.b = rest
	return v
}

func (r *mapReader) small(limit int64) int {
	v := r.signed()
	if r.err == nil && (v < 0 || v > limit) {
		r.fail(fmt.Errorf("%d is outside 0 to %d: %w", v, limit, ErrMalformed))
		return 0
	}
	return int(v)
}

// nilOr takes a nil, which stands for "none", and says so.
func (r *mapReader) nilOr() bool {
	if r.err != nil || !msgp.IsNil(r.b) {
		return false
	}
	r.b = r.b[1:]
	return true
}

func (r *mapReader) skip() {
	if r.err != nil {
		return
	}
	rest, err := msgp.Skip(r.b)
	if err != nil {
		r.malformed("unknown value", err)
		return
	}
	r.b = rest
}

// each reads a list of at most limit entries.
func each[T any](r *mapReader, limit int, read func() T) []T {
	if r.nilOr() {
		return nil
	}
	n := r.list(limit)
	out := make([]T, 0, n)
	for range n {
		if r.err != nil {
			return nil
		}
		out = append(out, read())
	}
	return out
}

// keys walks a map, hands each key to take and skips what it does not take.
func (r *mapReader) keys(limit int, take func(key string) bool) (unread int) {
	for range r.header(msgp.ReadMapHeaderBytes, limit) {
		key := r.text()
		if r.err != nil {
			return unread
		}
		if !take(key) {
			r.skip()
			unread++
		}
		if r.err != nil {
			r.err = fmt.Errorf("key %q: %w", key, r.err)
			return unread
		}
	}
	return unread
}

// maxKeys bounds the keys of a message's own map.
const maxKeys = 64

// ParseVLLMTransfer reads a request to push. Bytes after the map are an error.
func ParseVLLMTransfer(b []byte) (*VLLMTransfer, error) {
	r := &mapReader{b: b}
	t := &VLLMTransfer{}
	blocks := false
	t.Unread = r.keys(maxKeys, func(key string) bool {
		switch key {
		case "remote_hostname":
			t.Hostname = r.text()
		case "remote_port":
			t.Port = r.small(65535)
		case "remote_tp_size":
			t.TPSize = r.small(MaxRank)
		case "remote_tp_rank":
			t.TPRank = r.small(MaxRank)
		case "req_blocks":
			t.Requests, blocks = r.requests(), true
		case "kv_caches_base_addr":
			t.BaseAddrs = each(r, MaxRegions, r.unsigned)
		case "block_lens":
			t.BlockBytes = each(r, MaxRegions, r.unsigned)
		case "kv_block_lens":
			t.KVBlockBytes = each(r, MaxRegions, r.unsigned)
		case "registered_layer_names":
			t.LayerNames = each(r, MaxRegions, r.text)
		case "registered_layer_indices":
			t.LayerIndices = each(r, MaxRegions, r.signed)
		case "registered_group_indices":
			t.GroupIndices = each(r, MaxRegions, r.signed)
		default:
			return false
		}
		return true
	})
	if r.err == nil && !blocks {
		r.fail(fmt.Errorf("no req_blocks: %w", ErrUnknown))
	}
	return t, r.end("vLLM transfer")
}

func (r *mapReader) end(what string) error {
	if r.err == nil && len(r.b) > 0 {
		r.fail(fmt.Errorf("%d bytes after its end: %w", len(r.b), ErrMalformed))
	}
	if r.err != nil {
		return fmt.Errorf("read %s: %w", what, r.err)
	}
	return nil
}

func (r *mapReader) requests() []VLLMRequest {
	n := r.header(msgp.ReadMapHeaderBytes, MaxRequests)
	out := make([]VLLMRequest, 0, n)
	for range n {
		q := VLLMRequest{ID: r.text()}
		if size := r.list(maxKeys); size != 2 && r.err == nil {
			r.fail(fmt.Errorf("request %d has %d values, want 2: %w", len(out), size, ErrMalformed))
		}
		q.Transfer = r.text()
		q.Groups = r.groups()
		if r.err != nil {
			return nil
		}
		out = append(out, q)
	}
	return out
}

// groups reads a list of lists of block ids, or the one flat list of the
// versions before there were groups.
func (r *mapReader) groups() [][]int64 {
	n := r.list(MaxPages)
	if r.err != nil || n == 0 {
		return nil
	}
	if msgp.NextType(r.b) != msgp.ArrayType {
		return [][]int64{r.blocks(n)}
	}
	if n > MaxGroups {
		r.fail(fmt.Errorf("%d groups, at most %d: %w", n, MaxGroups, ErrTooLarge))
		return nil
	}
	out := make([][]int64, 0, n)
	for range n {
		out = append(out, r.blocks(r.list(MaxPages)))
	}
	return out
}

func (r *mapReader) blocks(n int) []int64 {
	if r.items += n; r.items > MaxPages {
		r.fail(fmt.Errorf("more than %d blocks in one message: %w", MaxPages, ErrTooLarge))
	}
	if r.err != nil {
		return nil
	}
	out := make([]int64, 0, n)
	for range n {
		v := r.signed()
		if r.err != nil {
			return nil
		}
		out = append(out, v)
	}
	return out
}

// ParseVLLMReply reads the answer to a [VLLMTransfer].
func ParseVLLMReply(b []byte) (*VLLMReply, error) {
	r := &mapReader{b: b}
	p := &VLLMReply{}
	status := false
	p.Unread = r.keys(maxKeys, func(key string) bool {
		switch key {
		case "status":
			p.Status, status = r.small(255), true
		case "ok_reqs":
			p.OK = each(r, MaxRequests, r.text)
		case "err_reqs":
			p.Failed = each(r, MaxRequests, r.text)
		case "err_msg":
			p.ReasonBytes = r.length()
		default:
			return false
		}
		return true
	})
	if r.err == nil && !status {
		r.fail(fmt.Errorf("no status: %w", ErrUnknown))
	}
	return p, r.end("vLLM reply")
}

// length reads a text, keeps its length alone, and takes nil for none.
func (r *mapReader) length() uint64 {
	if r.err != nil || r.nilOr() {
		return 0
	}
	v, rest, err := msgp.ReadStringZC(r.b)
	if err != nil {
		r.malformed("text", err)
		return 0
	}
	r.b = rest
	return uint64(len(v))
}
