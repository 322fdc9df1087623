package kvevents

import (
	"errors"
	"fmt"
	"hash/maphash"
	"math"

	"github.com/tinylib/msgp/msgp"
)

// Bounds of a batch.
const (
	MaxBatch  = 16 << 20
	MaxEvents = 1 << 16
	// MaxHashes is the most blocks in one event.
	MaxHashes = 1 << 16
	maxSalt   = 4096
	maxDepth  = 16
)

// ErrBatch is returned for a payload that is no batch of KV events.
var ErrBatch = errors.New("not a batch of KV events")

// Kind is what happened.
type Kind uint8

// The kinds of events; Unknown is one that this version does not know.
const (
	Unknown Kind = iota
	Stored
	Removed
	Cleared
	NumKind
)

var kindNames = [NumKind]string{"unknown", "stored", "removed", "cleared"}

func (k Kind) String() string { return kindNames[k] }

var kinds = map[string]Kind{"BlockStored": Stored, "BlockRemoved": Removed, "AllBlocksCleared": Cleared}

// Event is what is kept of one. Its slices are valid until the next is read.
type Event struct {
	Kind      Kind
	Hashes    []uint64 // of blocks; those that are bytes are hashed
	Parent    uint64
	HasParent bool
	BlockSize int64
	OnGPU     bool   // or in a medium that was not said
	Salt      []byte // as it came; nil: none was said
}

// Batch is what is known of one, beside its events.
type Batch struct {
	TS      float64
	Rank    int64
	HasRank bool
	Events  int
	Bad     int // events that could not be read
}

// Decoder reads batches. It is for one goroutine.
type Decoder struct {
	seed  maphash.Seed
	event Event
	extra []byte // extra_keys of the event, as they came
	lora  bool   // it names an adapter
}

// NewDecoder returns a decoder whose hashes of bytes are its own.
func NewDecoder() *Decoder { return &Decoder{seed: maphash.MakeSeed()} }

// Decode calls each with the events of a batch, in order. An event that cannot be read
// is counted and passed over.
func (d *Decoder) Decode(payload []byte, each func(*Event)) (b Batch, err error) {
	if len(payload) > MaxBatch {
		return b, fmt.Errorf("%w: %d bytes, at most %d", ErrBatch, len(payload), MaxBatch)
	}
	n, rest, err := msgp.ReadArrayHeaderBytes(payload)
	if err != nil || n < 2 {
		return b, fmt.Errorf("%w: not an array of time and events", ErrBatch)
	}
	if b.TS, rest, err = number(rest); err != nil {
		return b, fmt.Errorf("%w: the time: %w", ErrBatch, err)
	}
	events, rest, err := msgp.ReadArrayHeaderBytes(rest)
	if err != nil || events > MaxEvents {
		return b, fmt.Errorf("%w: not a list of at most %d events", ErrBatch, MaxEvents)
	}
	b.Events = int(events)
	for range events {
		value, after, err := one(rest)
		if err != nil {
			return b, fmt.Errorf("%w: its events: %w", ErrBatch, err)
		}
		rest = after
		if d.read(value) != nil {
			b.Bad++
			continue
		}
		each(&d.event)
	}
	if n > 2 && len(rest) > 0 && msgp.NextType(rest) != msgp.NilType {
		if b.Rank, _, err = msgp.ReadInt64Bytes(rest); err == nil {
			b.HasRank = true
		}
	}
	return b, nil
}

// number is a time as a float or an integer.
func number(raw []byte) (float64, []byte, error) {
	switch msgp.NextType(raw) {
	case msgp.IntType, msgp.UintType:
		n, rest, err := msgp.ReadInt64Bytes(raw)
		return float64(n), rest, err
	case msgp.Float32Type:
		n, rest, err := msgp.ReadFloat32Bytes(raw)
		return float64(n), rest, err
	}
	n, rest, err := msgp.ReadFloat64Bytes(raw)
	if err == nil && (math.IsNaN(n) || math.IsInf(n, 0)) {
		n = 0
	}
	return n, rest, err
}

// one takes the value at the start of raw, however it nests, within a depth.
func one(raw []byte) (value, rest []byte, err error) {
	if rest, err = skip(raw, maxDepth); err != nil {
		return nil, nil, err
	}
	return raw[:len(raw)-len(rest)], rest, nil
}

// widths are the bytes of an integer or nil that begins with each byte; 0: it is
// something else.
var widths = func() (w [256]uint8) {
	for b := range w {
		if b < 0x80 || b >= 0xe0 || b == 0xc0 {
			w[b] = 1
		}
	}
	for i, n := range []uint8{2, 3, 5, 9} {
		w[0xcc+i], w[0xd0+i] = n, n
	}
	return w
}()

var errDepth = errors.New("nested too deep")

func skip(raw []byte, depth int) ([]byte, error) {
	if depth == 0 {
		return nil, errDepth
	}
	var n uint32
	var err error
	rest := raw
	values := uint64(0)
	switch msgp.NextType(raw) {
	case msgp.ArrayType:
		n, rest, err = msgp.ReadArrayHeaderBytes(raw)
		values = uint64(n)
	case msgp.MapType:
		n, rest, err = msgp.ReadMapHeaderBytes(raw)
		values = 2 * uint64(n)
	default:
		return msgp.Skip(raw)
	}
	for ; err == nil && values > 0; values-- {
		// Most are integers, the token ids among them: stepped over without a call.
		if len(rest) > 0 {
			if n := widths[rest[0]]; n > 0 && int(n) <= len(rest) {
				rest = rest[n:]
				continue
			}
		}
		rest, err = skip(rest, depth-1)
	}
	return rest, err
}

// read reads one event in either form.
func (d *Decoder) read(raw []byte) error {
	d.event = Event{Hashes: d.event.Hashes[:0], OnGPU: true}
	d.extra, d.lora = nil, false
	var err error
	if msgp.NextType(raw) == msgp.MapType {
		err = d.readFields(raw)
	} else {
		err = d.readArray(raw)
	}
	if err == nil && d.extra != nil && d.event.Salt == nil {
		err = d.readExtraKeys()
	}
	return err
}

var errEvent = errors.New("not a KV event")

// field is one of an event's.
type field uint8

const (
	none field = iota
	hashes
	parent
	blockSize
	medium
	salt
	lora
	extraKeys
)

// places are the fields of each kind's array, after its tag; what follows them is a
// map of more. Those that are not named are stepped over: token_ids, lora_id,
// group_idx and others.
var places = [NumKind][]field{
	Stored:  {hashes, parent, none, blockSize, none, medium, lora, extraKeys},
	Removed: {hashes, medium},
}

func (d *Decoder) readArray(raw []byte) error {
	n, rest, err := msgp.ReadArrayHeaderBytes(raw)
	if err != nil || n == 0 {
		return errEvent
	}
	tag, rest, err := msgp.ReadStringZC(rest)
	if err != nil {
		return errEvent
	}
	d.event.Kind = kinds[string(tag)]
	for i := range n - 1 {
		var value []byte
		if value, rest, err = one(rest); err != nil {
			return err
		}
		if at := places[d.event.Kind]; msgp.NextType(value) == msgp.MapType {
			err = d.readFields(value)
		} else if int(i) < len(at) {
			err = d.take(at[i], value)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// names are the fields of a map.
var names = map[string]field{
	"block_hashes": hashes, "parent_block_hash": parent, "block_size": blockSize, "medium": medium, "cache_salt": salt, "lora_name": lora,
	"extra_keys": extraKeys,
}

func (d *Decoder) readFields(raw []byte) error {
	n, rest, err := msgp.ReadMapHeaderBytes(raw)
	if err != nil {
		return errEvent
	}
	for range n {
		var key, value []byte
		if key, rest, err = msgp.ReadStringZC(rest); err != nil {
			return errEvent
		}
		if value, rest, err = one(rest); err != nil {
			return err
		}
		if string(key) == "type" {
			tag, _, err := msgp.ReadStringZC(value)
			if err != nil {
				return errEvent
			}
			d.event.Kind = kinds[string(tag)]
			continue
		}
		if err := d.take(names[string(key)], value); err != nil {
			return err
		}
	}
	return nil
}

// take reads a field; nil is one that is not said.
func (d *Decoder) take(f field, value []byte) (err error) {
	if f == none || msgp.NextType(value) == msgp.NilType {
		return nil
	}
	e := &d.event
	switch f {
	case hashes:
		return d.readHashes(value)
	case parent:
		e.Parent, err = d.hash(value)
		e.HasParent = err == nil
		return err
	case blockSize:
		e.BlockSize, _, err = msgp.ReadInt64Bytes(value)
		return err
	case medium:
		name, _, err := msgp.ReadStringZC(value)
		e.OnGPU = string(name) == "GPU"
		return err
	case salt:
		e.Salt, err = text(value)
		return err
	case lora:
		d.lora = true
	default:
		d.extra = value
	}
	return nil
}

func text(value []byte) ([]byte, error) {
	s, _, err := msgp.ReadStringZC(value)
	switch {
	case err != nil:
		return nil, errEvent
	case len(s) > maxSalt:
		return nil, fmt.Errorf("a salt of %d bytes, at most %d", len(s), maxSalt)
	case len(s) == 0:
		return nil, nil
	}
	return s, nil
}

func (d *Decoder) readHashes(value []byte) error {
	n, rest, err := msgp.ReadArrayHeaderBytes(value)
	if err != nil || n > MaxHashes {
		return errEvent
	}
	for range n {
		var v []byte
		if v, rest, err = one(rest); err != nil {
			return err
		}
		h, err := d.hash(v)
		if err != nil {
			return err
		}
		d.event.Hashes = append(d.event.Hashes, h)
	}
	return nil
}

// hash is a block's: an integer of either sign, or bytes.
func (d *Decoder) hash(value []byte) (uint64, error) {
	switch msgp.NextType(value) {
	case msgp.UintType:
		h, _, err := msgp.ReadUint64Bytes(value)
		return h, err
	case msgp.IntType:
		h, _, err := msgp.ReadInt64Bytes(value)
		return uint64(h), err
	case msgp.BinType:
		b, _, err := msgp.ReadBytesZC(value)
		return maphash.Bytes(d.seed, b), err
	case msgp.StrType:
		b, _, err := msgp.ReadStringZC(value)
		return maphash.Bytes(d.seed, b), err
	}
	return 0, errEvent
}

// readExtraKeys reads what vLLM puts into the hash of each block beside its tokens. In
// the first block that is the adapter's name, if there is one, pairs of other inputs, the
// salt, and digests. Where more than one text could be the salt, none is taken for it.
func (d *Decoder) readExtraKeys() error {
	n, rest, err := msgp.ReadArrayHeaderBytes(d.extra)
	if err != nil || n == 0 || msgp.NextType(rest) != msgp.ArrayType {
		return nil // none for the first block
	}
	if n, rest, err = msgp.ReadArrayHeaderBytes(rest); err != nil {
		return nil
	}
	var found []byte
	texts := 0
	for i := range n {
		var value []byte
		if value, rest, err = one(rest); err != nil {
			return err
		}
		if msgp.NextType(value) != msgp.StrType || i == 0 && d.lora {
			continue
		}
		found = value
		texts++
	}
	if texts == 1 {
		d.event.Salt, err = text(found)
	}
	return err
}
