package pdwire

import (
	"encoding/binary"
	"fmt"
	"math"
	"strconv"

	"github.com/kvwitness/kvwitness/engine/zmtp"
)

// fields reads frames by position. The first error stays; later reads return
// zero values, so that a decoder runs straight down and asks once.
type fields struct {
	kind   string
	frames []zmtp.Frame
	known  int // frames that some read asked for
	err    error
}

// Layout says how a message's frames compare with the ones that are known.
type Layout struct {
	Frames int // frames of the message
	Extra  int // frames at its end that nobody here understands
}

func (f *fields) layout() Layout {
	return Layout{Frames: len(f.frames), Extra: max(0, len(f.frames)-f.known)}
}

func (f *fields) fail(i int, err error) {
	if f.err == nil {
		f.err = fmt.Errorf("read %s, frame %d: %w", f.kind, i, err)
	}
}

// has says whether frame i exists and is not empty; an empty frame stands for
// "not given" throughout SGLang.
func (f *fields) has(i int) bool {
	f.known = max(f.known, i+1)
	return i < len(f.frames) && f.frames[i].Size > 0
}

// bytes returns the whole body of frame i, or nil if there is none.
func (f *fields) bytes(i, limit int) []byte {
	if !f.has(i) {
		return nil
	}
	fr := f.frames[i]
	switch {
	case fr.Size > uint64(limit):
		f.fail(i, fmt.Errorf("%d bytes, at most %d: %w", fr.Size, limit, ErrTooLarge))
		return nil
	case fr.Damaged || uint64(len(fr.Body)) != fr.Size:
		f.fail(i, ErrIncomplete)
		return nil
	}
	return fr.Body
}

func (f *fields) text(i int) string { return string(f.bytes(i, MaxNameBytes)) }

// integer reads an ASCII integer within [lo, hi]. An absent frame is absent.
func (f *fields) integer(i int, lo, hi, absent int64) int64 {
	const maxDigits = 20
	b := f.bytes(i, maxDigits)
	if b == nil {
		return absent
	}
	v, err := strconv.ParseInt(string(b), 10, 64)
	if err != nil {
		f.fail(i, fmt.Errorf("not an integer: %w", ErrMalformed))
		return absent
	}
	if v < lo || v > hi {
		f.fail(i, fmt.Errorf("%d is outside %d to %d: %w", v, lo, hi, ErrMalformed))
		return absent
	}
	return v
}

func (f *fields) unsigned(i int) uint64 { return uint64(f.integer(i, 0, 1<<62, 0)) }

func (f *fields) rank(i int, absent int64) int { return int(f.integer(i, 0, MaxRank, absent)) }

func (f *fields) room(i int) int64 {
	if !f.has(i) {
		f.fail(i, fmt.Errorf("no room: %w", ErrMalformed))
		return 0
	}
	return f.integer(i, math.MinInt64, math.MaxInt64, 0)
}

// address reads a host and a port in two frames.
func (f *fields) address(i int) Address {
	return Address{Host: f.text(i), Port: uint16(f.integer(i+1, 0, 65535, 0))}
}

// need fails a message that is too short to be of its kind.
func (f *fields) need(n int) {
	if len(f.frames) < n {
		f.fail(len(f.frames), fmt.Errorf("%d frames, at least %d: %w", len(f.frames), n, ErrMalformed))
	}
}

// item is a packed integer.
type item interface{ int32 | uint32 | uint64 }

func width[T item]() int {
	var v T
	if _, ok := any(v).(uint64); ok {
		return 8
	}
	return 4
}

// packed reads a frame of little-endian integers without a count.
func packed[T item](f *fields, i, limit int) []T {
	b := f.bytes(i, limit*width[T]())
	v, ok := unpack[T](b)
	if !ok {
		f.fail(i, fmt.Errorf("%d bytes are no list of %d-byte integers: %w", len(b), width[T](), ErrMalformed))
	}
	return v
}

func unpack[T item](b []byte) (v []T, ok bool) {
	w := width[T]()
	if len(b)%w != 0 {
		return nil, false
	}
	if len(b) == 0 {
		return nil, true
	}
	v = make([]T, len(b)/w)
	for i := range v {
		if w == 8 {
			v[i] = T(binary.LittleEndian.Uint64(b[8*i:]))
		} else {
			v[i] = T(binary.LittleEndian.Uint32(b[4*i:]))
		}
	}
	return v, true
}

func pack[T item](dst []byte, v []T) []byte {
	w := width[T]()
	for _, x := range v {
		if w == 8 {
			dst = binary.LittleEndian.AppendUint64(dst, uint64(x))
		} else {
			dst = binary.LittleEndian.AppendUint32(dst, uint32(x))
		}
	}
	return dst
}

// lists reads SGLang's packed list of lists: a u32 count, the u32 length in
// bytes of each list, then the lists.
func lists[T item](f *fields, i int) [][]T {
	b := f.bytes(i, MaxLists*4+4+MaxListItems*width[T]())
	if len(b) == 0 {
		return nil
	}
	v, err := unpackLists[T](b)
	if err != nil {
		f.fail(i, err)
	}
	return v
}

func unpackLists[T item](b []byte) ([][]T, error) {
	if len(b) < 4 {
		return nil, fmt.Errorf("%d bytes hold no count: %w", len(b), ErrMalformed)
	}
	n := binary.LittleEndian.Uint32(b)
	if n > MaxLists {
		return nil, fmt.Errorf("%d lists, at most %d: %w", n, MaxLists, ErrTooLarge)
	}
	lens, rest := b[4:], []byte(nil)
	if len(lens) < int(4*n) {
		return nil, fmt.Errorf("lengths of %d lists do not fit: %w", n, ErrMalformed)
	}
	lens, rest = lens[:4*n], lens[4*n:]
	var out [][]T
	if n > 0 {
		out = make([][]T, n)
	}
	for i := range out {
		size := uint64(binary.LittleEndian.Uint32(lens[4*i:]))
		if size > uint64(len(rest)) {
			return nil, fmt.Errorf("list %d of %d bytes does not fit: %w", i, size, ErrMalformed)
		}
		v, ok := unpack[T](rest[:size])
		if !ok {
			return nil, fmt.Errorf("list %d of %d bytes: %w", i, size, ErrMalformed)
		}
		out[i], rest = v, rest[size:]
	}
	if len(rest) > 0 {
		return nil, fmt.Errorf("%d bytes after the last list: %w", len(rest), ErrMalformed)
	}
	return out, nil
}

func packLists[T item](v [][]T) []byte {
	if len(v) == 0 {
		return nil
	}
	b := binary.LittleEndian.AppendUint32(nil, uint32(len(v)))
	for _, l := range v {
		b = binary.LittleEndian.AppendUint32(b, uint32(len(l)*width[T]()))
	}
	for _, l := range v {
		b = pack(b, l)
	}
	return b
}

func ascii[T ~int | ~int64 | ~uint16 | ~uint64](v T) []byte {
	return []byte(fmt.Sprint(v))
}

// given encodes a number of which a negative value means that there is none:
// an empty frame.
func given[T ~int | ~int64](v T) []byte {
	if v < 0 {
		return nil
	}
	return ascii(v)
}
