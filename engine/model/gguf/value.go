package gguf

import (
	"encoding/binary"
	"fmt"
	"math"
)

// kind is the type of a metadata value, by the format's numbers.
type kind uint32

const (
	kindU8 kind = iota
	kindI8
	kindU16
	kindI16
	kindU32
	kindI32
	kindF32
	kindBool
	kindText
	kindArray
	kindU64
	kindI64
	kindF64
)

// widths are the bytes of a value of each kind; 0: it brings its own length.
var widths = [...]uint64{1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8}

func (k kind) String() string {
	names := [...]string{"uint8", "int8", "uint16", "int16", "uint32", "int32", "float32", "bool", "string", "array", "uint64", "int64", "float64"}
	if int(k) < len(names) {
		return names[k]
	}
	return fmt.Sprintf("type %d", uint32(k))
}

// value is a metadata value as it stands in the file: a number's bytes, a string's,
// or, of an array, all elements'.
type value struct {
	kind    kind
	element kind   // of an array
	count   uint64 // of an array
	raw     []byte
}

// value reads one value and checks that it is whole.
func (c *cursor) value(key string) (v value) {
	v.kind = kind(c.u32("type of " + key))
	switch {
	case c.err != nil:
	case v.kind == kindText:
		v.raw = c.text(MaxTextBytes, "value of "+key)
	case v.kind == kindArray:
		v.element = kind(c.u32("element type of " + key))
		v.count = c.count(MaxElements, "elements of "+key)
		v.raw = c.elements(v.element, v.count, key)
	case int(v.kind) < len(widths):
		v.raw = c.take(widths[v.kind], "value of "+key)
	default:
		c.fail("%s has a value of %v, which is none of the format's", key, v.kind)
	}
	return v
}

// elements steps over an array and returns its bytes. Arrays of arrays are not
// supported: no model needs them.
func (c *cursor) elements(element kind, count uint64, key string) []byte {
	from := c.at
	switch {
	case c.err != nil:
	case element == kindText:
		for i := uint64(0); i < count && c.err == nil; i++ {
			c.text(MaxTextBytes, "an element of "+key)
		}
	case int(element) < len(widths) && element != kindArray:
		c.take(count*widths[element], "elements of "+key)
	default:
		c.fail("%s is an array of %v, which is not supported", key, element)
	}
	if c.err != nil {
		return nil
	}
	return c.data[from:c.at]
}

// find returns a key's value. Errors: ErrKey.
func (f *File) find(key string) (value, error) {
	v, ok := f.keys[key]
	if !ok {
		return v, fmt.Errorf("%w: %s is missing", ErrKey, key)
	}
	return v, nil
}

// Has reports whether there is such a key.
func (f *File) Has(key string) bool {
	_, ok := f.keys[key]
	return ok
}

// Uint returns a whole number that is not negative. Errors: ErrKey.
func (f *File) Uint(key string) (uint64, error) {
	v, err := f.find(key)
	if err != nil {
		return 0, err
	}
	n, ok := number(v.kind, v.raw)
	if !ok {
		return 0, fmt.Errorf("%w: %s is of type %v, want a whole number that is not negative", ErrKey, key, v.kind)
	}
	return n, nil
}

// number reads a whole number; ok is false for one that is negative, or none.
func number(k kind, b []byte) (n uint64, ok bool) {
	var signed int64
	switch k {
	case kindU8:
		return uint64(b[0]), true
	case kindU16:
		return uint64(binary.LittleEndian.Uint16(b)), true
	case kindU32:
		return uint64(binary.LittleEndian.Uint32(b)), true
	case kindU64:
		return binary.LittleEndian.Uint64(b), true
	case kindI8:
		signed = int64(int8(b[0]))
	case kindI16:
		signed = int64(int16(binary.LittleEndian.Uint16(b)))
	case kindI32:
		signed = int64(int32(binary.LittleEndian.Uint32(b)))
	case kindI64:
		signed = int64(binary.LittleEndian.Uint64(b))
	default:
		return 0, false
	}
	return uint64(signed), signed >= 0
}

// Float returns a floating-point number. Errors: ErrKey.
func (f *File) Float(key string) (float64, error) {
	v, err := f.find(key)
	switch {
	case err != nil:
		return 0, err
	case v.kind == kindF32:
		return float64(math.Float32frombits(binary.LittleEndian.Uint32(v.raw))), nil
	case v.kind == kindF64:
		return math.Float64frombits(binary.LittleEndian.Uint64(v.raw)), nil
	}
	return 0, fmt.Errorf("%w: %s is of type %v, want a floating-point number", ErrKey, key, v.kind)
}

// Bool returns a truth value. Errors: ErrKey.
func (f *File) Bool(key string) (bool, error) {
	v, err := f.find(key)
	if err == nil && v.kind != kindBool {
		err = fmt.Errorf("%w: %s is of type %v, want a bool", ErrKey, key, v.kind)
	}
	return err == nil && v.raw[0] != 0, err
}

// Text returns a string. Errors: ErrKey.
func (f *File) Text(key string) (string, error) {
	v, err := f.find(key)
	if err == nil && v.kind != kindText {
		err = fmt.Errorf("%w: %s is of type %v, want a string", ErrKey, key, v.kind)
	}
	if err != nil {
		return "", err
	}
	return string(v.raw), nil
}

// Texts returns an array of strings. Errors: ErrKey.
func (f *File) Texts(key string) ([]string, error) {
	v, err := f.find(key)
	if err == nil && (v.kind != kindArray || v.element != kindText) {
		err = fmt.Errorf("%w: %s is of type %v, want an array of strings", ErrKey, key, v.kind)
	}
	if err != nil {
		return nil, err
	}
	c, out := cursor{data: v.raw}, make([]string, v.count)
	for i := range out {
		out[i] = string(c.text(MaxTextBytes, key))
	}
	return out, c.err
}

// Uints returns an array of whole numbers that are not negative. Errors: ErrKey.
func (f *File) Uints(key string) ([]uint64, error) {
	v, err := f.find(key)
	if err != nil {
		return nil, err
	}
	if v.kind != kindArray || v.element == kindText {
		return nil, fmt.Errorf("%w: %s is of type %v, want an array of whole numbers", ErrKey, key, v.kind)
	}
	out, width := make([]uint64, v.count), int(widths[v.element])
	for i := range out {
		n, ok := number(v.element, v.raw[i*width:])
		if !ok {
			return nil, fmt.Errorf("%w: element %d of %s, of type %v, is no whole number that is not negative", ErrKey, i, key, v.element)
		}
		out[i] = n
	}
	return out, nil
}
