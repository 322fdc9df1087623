// Package ggufbuild writes GGUF files for tests: small ones of every kind, and
// broken ones. It imports the standard library only, so that what the reader takes
// for granted is not taken for granted here too.
package ggufbuild

import (
	"bytes"
	"encoding/binary"
	"fmt"
)

// alignment of the tensors, which is the format's default.
const alignment = 32

// The format's numbers of the types that Key writes.
const (
	u8      = 0
	i32     = 5
	u32     = 4
	f32     = 6
	boolean = 7
	text    = 8
	array   = 9
	u64     = 10
	f64     = 12
)

// Builder collects what goes into a file. The zero Builder makes an empty file.
type Builder struct {
	keys, tensors, data bytes.Buffer
	numKeys, numTensors uint64
}

// Key adds a metadata value, of a type that the format has.
func (b *Builder) Key(name string, v any) *Builder {
	b.numKeys++
	putText(&b.keys, name)
	switch v := v.(type) {
	case uint8:
		put(&b.keys, uint32(u8), v)
	case int32:
		put(&b.keys, uint32(i32), v)
	case uint32:
		put(&b.keys, uint32(u32), v)
	case uint64:
		put(&b.keys, uint32(u64), v)
	case float32:
		put(&b.keys, uint32(f32), v)
	case float64:
		put(&b.keys, uint32(f64), v)
	case bool:
		put(&b.keys, uint32(boolean), v)
	case string:
		put(&b.keys, uint32(text))
		putText(&b.keys, v)
	case []string:
		put(&b.keys, uint32(array), uint32(text), uint64(len(v)))
		for _, s := range v {
			putText(&b.keys, s)
		}
	case []int32:
		put(&b.keys, uint32(array), uint32(i32), uint64(len(v)), v)
	default:
		panic(fmt.Sprintf("no type of the format for %T", v))
	}
	return b
}

// Tensor adds a tensor: its type by the format's number, its bytes as they are.
func (b *Builder) Tensor(name string, kind uint32, data []byte, dims ...int) *Builder {
	b.numTensors++
	putText(&b.tensors, name)
	put(&b.tensors, uint32(len(dims)))
	for _, d := range dims {
		put(&b.tensors, uint64(d))
	}
	pad(&b.data)
	put(&b.tensors, kind, uint64(b.data.Len()))
	b.data.Write(data)
	return b
}

// File is the whole file, version 3.
func (b *Builder) File() []byte {
	var out bytes.Buffer
	out.WriteString("GGUF")
	put(&out, uint32(3), b.numTensors, b.numKeys)
	out.Write(b.keys.Bytes())
	out.Write(b.tensors.Bytes())
	pad(&out)
	out.Write(b.data.Bytes())
	return out.Bytes()
}

func pad(w *bytes.Buffer) {
	w.Write(make([]byte, (alignment-w.Len()%alignment)%alignment))
}

func putText(w *bytes.Buffer, s string) {
	put(w, uint64(len(s)))
	w.WriteString(s)
}

func put(w *bytes.Buffer, values ...any) {
	for _, v := range values {
		_ = binary.Write(w, binary.LittleEndian, v) // a bytes.Buffer takes everything
	}
}
