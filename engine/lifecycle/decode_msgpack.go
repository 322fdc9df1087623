package lifecycle

import (
	"fmt"
	"unicode/utf8"

	"github.com/tinylib/msgp/msgp"
)

// NewMsgpackDecoder reads facts that are single msgpack maps.
func NewMsgpackDecoder() *Decoder { return newDecoder(msgpackEncoding{}) }

// msgpackEncoding slices msgpack with msgp's readers over memory, which take
// no more than they are given.
type msgpackEncoding struct{}

func (m msgpackEncoding) cut(raw []byte, vals *values) error {
	rest, err := m.members(raw, func(key, value []byte) error {
		f := fieldOf(key)
		if f == numFields || m.isNull(value) {
			return nil
		}
		if vals[f] != nil {
			return fmt.Errorf("%q is there twice", key)
		}
		vals[f] = value
		return nil
	})
	if err == nil && len(rest) > 0 {
		return fmt.Errorf("%d bytes after the map", len(rest))
	}
	return err
}

// length is how long a value is that begins with this byte, where the byte alone
// says so, else 0. Source: the msgpack specification, table of formats.
var length = func() (l [256]uint8) {
	for b := range l {
		switch {
		case b < 0x80 || b >= 0xe0: // small numbers
			l[b] = 1
		case b >= 0xa0 && b < 0xc0: // short text
			l[b] = uint8(1 + b - 0xa0)
		}
	}
	l[0xc0], l[0xc2], l[0xc3] = 1, 1, 1             // nil, false, true
	l[0xca], l[0xcb] = 5, 9                         // floats
	l[0xcc], l[0xcd], l[0xce], l[0xcf] = 2, 3, 5, 9 // unsigned
	l[0xd0], l[0xd1], l[0xd2], l[0xd3] = 2, 3, 5, 9 // signed
	return l
}()

// skip steps over one value, however it nests, at most depth deep.
func skip(raw []byte, depth int) ([]byte, error) {
	if depth == 0 {
		return nil, fmt.Errorf("nested more than %d deep", maxDepth)
	}
	if len(raw) == 0 {
		return nil, fmt.Errorf("not msgpack: %w", msgp.ErrShortBytes)
	}
	if n := int(length[raw[0]]); n > 0 && n <= len(raw) {
		return raw[n:], nil
	}
	var elements uint64
	rest := raw
	switch msgp.NextType(raw) {
	case msgp.MapType:
		n, after, err := msgp.ReadMapHeaderBytes(raw)
		if err != nil {
			return nil, fmt.Errorf("not msgpack: %w", err)
		}
		elements, rest = 2*uint64(n), after
	case msgp.ArrayType:
		n, after, err := msgp.ReadArrayHeaderBytes(raw)
		if err != nil {
			return nil, fmt.Errorf("not msgpack: %w", err)
		}
		elements, rest = uint64(n), after
	default:
		after, err := msgp.Skip(raw)
		if err != nil {
			return nil, fmt.Errorf("not msgpack: %w", err)
		}
		return after, nil
	}
	for ; elements > 0; elements-- {
		var err error
		if rest, err = skip(rest, depth-1); err != nil {
			return nil, err
		}
	}
	return rest, nil
}

func (m msgpackEncoding) object(raw []byte, each func(key, value []byte) error) error {
	_, err := m.members(raw, each)
	return err
}

// members is object, and gives what follows the map.
func (msgpackEncoding) members(raw []byte, each func(key, value []byte) error) (rest []byte, err error) {
	n, rest, err := msgp.ReadMapHeaderBytes(raw)
	if err != nil {
		return nil, wantMsgpack("a map", raw)
	}
	for ; n > 0; n-- {
		var key, value []byte
		if key, rest, err = msgp.ReadStringZC(rest); err != nil {
			return nil, fmt.Errorf("the key of a map: %w", err)
		}
		if value, rest, err = one(rest); err != nil {
			return nil, err
		}
		if err := each(key, value); err != nil {
			return nil, err
		}
	}
	return rest, nil
}

func (msgpackEncoding) array(raw []byte, limit int, each func(value []byte) error) error {
	n, rest, err := msgp.ReadArrayHeaderBytes(raw)
	if err != nil {
		return wantMsgpack("an array", raw)
	}
	if uint64(n) > uint64(limit) {
		return fmt.Errorf("more than %d elements", limit)
	}
	for ; n > 0; n-- {
		var value []byte
		if value, rest, err = one(rest); err != nil {
			return err
		}
		if err := each(value); err != nil {
			return err
		}
	}
	return nil
}

// one takes the value at the start of raw.
func one(raw []byte) (value, rest []byte, err error) {
	if rest, err = skip(raw, maxDepth); err != nil {
		return nil, nil, err
	}
	return raw[:len(raw)-len(rest)], rest, nil
}

// plainRuns reads pairs of fixed-width numbers without calling back for each.
func (msgpackEncoding) plainRuns(raw []byte) (Runs, bool) {
	n, rest, err := msgp.ReadArrayHeaderBytes(raw)
	if err != nil || n == 0 || n > MaxRuns || int(n) > len(rest)/3 {
		return nil, false
	}
	runs := make(Runs, 0, n)
	for ; n > 0; n-- {
		var pair uint32
		var first, count uint64
		if pair, rest, err = msgp.ReadArrayHeaderBytes(rest); err != nil || pair != 2 {
			return nil, false
		}
		if first, rest, err = msgp.ReadUint64Bytes(rest); err != nil || first > MaxPages {
			return nil, false
		}
		if count, rest, err = msgp.ReadUint64Bytes(rest); err != nil || count == 0 || first+count > MaxPages {
			return nil, false
		}
		runs = append(runs, Run{uint32(first), uint32(count)})
	}
	return runs, true
}

func (msgpackEncoding) text(raw []byte, limit int) ([]byte, error) {
	b, _, err := msgp.ReadStringZC(raw)
	switch {
	case err != nil:
		return nil, wantMsgpack("text", raw)
	case len(b) > limit:
		return nil, fmt.Errorf("%d bytes of text, at most %d are allowed", len(b), limit)
	case !utf8.Valid(b):
		return nil, fmt.Errorf("text that is not UTF-8")
	}
	return b, nil
}

func (msgpackEncoding) integer(raw []byte) (uint64, bool, error) {
	if msgp.NextType(raw) == msgp.UintType {
		v, _, err := msgp.ReadUint64Bytes(raw)
		return v, false, err
	}
	v, _, err := msgp.ReadInt64Bytes(raw)
	switch {
	case err != nil:
		return 0, false, wantMsgpack("a whole number", raw)
	case v < 0:
		return -uint64(v), true, nil
	}
	return uint64(v), false, nil
}

func (msgpackEncoding) boolean(raw []byte) (bool, error) {
	v, _, err := msgp.ReadBoolBytes(raw)
	if err != nil {
		return false, wantMsgpack("true or false", raw)
	}
	return v, nil
}

func (msgpackEncoding) isText(raw []byte) bool { return msgp.NextType(raw) == msgp.StrType }
func (msgpackEncoding) isEmpty(raw []byte) bool {
	b, _, err := msgp.ReadStringZC(raw)
	return err == nil && len(b) == 0
}
func (msgpackEncoding) isNull(raw []byte) bool { return msgp.IsNil(raw) }

// wantMsgpack names the kind of value that was found, never its content.
func wantMsgpack(want string, raw []byte) error {
	return fmt.Errorf("want %s, got %s", want, msgp.NextType(raw))
}
