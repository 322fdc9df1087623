package gguf_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kvwitness/kvwitness/engine/model/gguf"
	"github.com/kvwitness/kvwitness/test/model/ggufbuild"
)

// small is a file with something of everything.
func small() *ggufbuild.Builder {
	var b ggufbuild.Builder
	return b.Key("a.count", uint32(7)).Key("a.big", uint64(1)<<40).Key("a.small", uint8(255)).Key("a.minus", int32(-1)).
		Key("a.float", float32(0.5)).Key("a.double", 0.25).Key("a.truth", true).Key("a.name", "llama").
		Key("a.words", []string{"one", "", "three"}).Key("a.kinds", []int32{1, 3, 6}).Key("a.signed", []int32{1, -3}).
		Tensor("t.single", uint32(gguf.F32), make([]byte, 4*3*2), 3, 2).
		Tensor("t.packed", uint32(gguf.Q4_1), bytes.Repeat([]byte{9}, 40), 64).
		Tensor("t.bytes", uint32(gguf.Q8_0), bytes.Repeat([]byte{8}, 68), 32, 2)
}

// Promise: what was written is read, and what is of another type is refused.
func TestEveryValueIsReadAsItWasWritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m.gguf")
	if err := os.WriteFile(path, small().File(), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := gguf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for key, want := range map[string]uint64{"a.count": 7, "a.big": 1 << 40, "a.small": 255} {
		if n, err := f.Uint(key); err != nil || n != want {
			t.Errorf("%s: %d, %v", key, n, err)
		}
	}
	single, err1 := f.Float("a.float")
	double, err2 := f.Float("a.double")
	truth, err3 := f.Bool("a.truth")
	name, err4 := f.Text("a.name")
	words, err5 := f.Texts("a.words")
	kinds, err6 := f.Uints("a.kinds")
	if err := errors.Join(err1, err2, err3, err4, err5, err6); err != nil || single != 0.5 || double != 0.25 || !truth || name != "llama" ||
		!slices.Equal(words, []string{"one", "", "three"}) || !slices.Equal(kinds, []uint64{1, 3, 6}) {
		t.Errorf("%v %v %v %q %q %v: %v", single, double, truth, name, words, kinds, err)
	}
	for key, get := range map[string]func(string) error{
		"a.none":   func(k string) error { _, err := f.Text(k); return err },
		"a.minus":  func(k string) error { _, err := f.Uint(k); return err },
		"a.name":   func(k string) error { _, err := f.Uint(k); return err },
		"a.count":  func(k string) error { _, err := f.Float(k); return err },
		"a.float":  func(k string) error { _, err := f.Bool(k); return err },
		"a.words":  func(k string) error { _, err := f.Uints(k); return err },
		"a.kinds":  func(k string) error { _, err := f.Texts(k); return err },
		"a.signed": func(k string) error { _, err := f.Uints(k); return err },
	} {
		if err := get(key); !errors.Is(err, gguf.ErrKey) || !strings.Contains(err.Error(), key) {
			t.Errorf("%s: %v", key, err)
		}
	}
}

// Promise: a tensor's bytes are those that were written, and only of its own shape.
func TestTensorsLieWhereTheFileSays(t *testing.T) {
	f, err := gguf.Parse(small().File())
	if err != nil {
		t.Fatal(err)
	}
	if names := f.Names(); !slices.Equal(names, []string{"t.single", "t.packed", "t.bytes"}) {
		t.Errorf("%q", names)
	}
	for name, want := range map[string]struct {
		dims []int
		data []byte
		row  int
	}{
		"t.single": {[]int{3, 2}, make([]byte, 24), 12},
		"t.packed": {[]int{64}, bytes.Repeat([]byte{9}, 40), 40},
		"t.bytes":  {[]int{32, 2}, bytes.Repeat([]byte{8}, 68), 34},
	} {
		got, err := f.Tensor(name, want.dims...)
		if err != nil || !bytes.Equal(got.Data, want.data) || got.RowBytes() != want.row {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	for _, dims := range [][]int{{2, 3}, {6}, {}} {
		if _, err := f.Tensor("t.single", dims...); !errors.Is(err, gguf.ErrTensor) {
			t.Errorf("shape %v: %v", dims, err)
		}
	}
	if _, err := f.Tensor("t.none", 1); !errors.Is(err, gguf.ErrTensor) {
		t.Errorf("a tensor that is not there: %v", err)
	}
}

// broken files, and what is said of them.
func broken() map[string]struct {
	file []byte
	says string
} {
	type c = struct {
		file []byte
		says string
	}
	header := func(version uint32, tensors, keys uint64) []byte {
		b := append([]byte("GGUF"), make([]byte, 20)...)
		binary.LittleEndian.PutUint32(b[4:], version)
		binary.LittleEndian.PutUint64(b[8:], tensors)
		binary.LittleEndian.PutUint64(b[16:], keys)
		return b
	}
	build := func(do func(b *ggufbuild.Builder)) []byte {
		var b ggufbuild.Builder
		do(&b)
		return b.File()
	}
	tensor := func(kind uint32, size int, dims ...int) []byte {
		return build(func(b *ggufbuild.Builder) { b.Tensor("t", kind, make([]byte, size), dims...) })
	}
	long := binary.LittleEndian.AppendUint64(header(3, 0, 1), 1<<62)
	array := append(binary.LittleEndian.AppendUint64(header(3, 0, 1), 1), 'k')
	array = binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(array, 9), 0)
	array = binary.LittleEndian.AppendUint64(array, 1<<23)
	whole := small().File()
	return map[string]c{
		"no magic":            {[]byte("GGML................................"), "begins with"},
		"big-endian":          {header(3<<24, 0, 0), "version"},
		"too many tensors":    {header(3, gguf.MaxTensors+1, 0), "tensors, at most"},
		"too many keys":       {header(3, 0, 1<<63), "keys, at most"},
		"a key of 2^62 bytes": {long, "byte 24: 4611686018427387904 bytes of a key"},
		"a long array":        {array, "8388608 bytes, 0 are left"},
		"cut in the keys":     {whole[:100], "left"},
		"cut in the tensors":  {whole[:len(whole)-1], "beyond the end of the file"},
		"a key twice":         {build(func(b *ggufbuild.Builder) { b.Key("k", true).Key("k", true) }), "twice"},
		"a tensor twice": {build(func(b *ggufbuild.Builder) {
			b.Tensor("t", 0, make([]byte, 4), 1).Tensor("t", 0, make([]byte, 4), 1)
		}), "twice"},
		"an alignment of 3":     {build(func(b *ggufbuild.Builder) { b.Key("general.alignment", uint32(3)) }), "power of two"},
		"no dimension":          {tensor(0, 4), "dimensions"},
		"five dimensions":       {tensor(0, 4, 1, 1, 1, 1, 1), "dimensions"},
		"a side of zero":        {tensor(0, 4, 0), "zero"},
		"sides that overflow":   {tensor(0, 4, 1<<31, 1<<31, 1<<31), "too large"},
		"a type of another age": {tensor(2, 18, 32), "tensor type 2"},
		"half a block":          {tensor(3, 20, 31), "multiple of 32"},
	}
}

// Promise: a broken file is refused, and the error says what is wrong and where.
func TestABrokenFileIsNamed(t *testing.T) {
	for name, c := range broken() {
		_, err := gguf.Parse(c.file)
		if !errors.Is(err, gguf.ErrFormat) || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), ": byte ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Promise: what is no file of models is refused before it is mapped.
func TestOnlyARegularFileIsOpened(t *testing.T) {
	dir := t.TempDir()
	empty := filepath.Join(dir, "empty")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{dir, empty} {
		if _, err := gguf.Open(path); !errors.Is(err, gguf.ErrFormat) {
			t.Errorf("%s: %v", path, err)
		}
	}
	if _, err := gguf.Open(filepath.Join(dir, "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file that is not there: %v", err)
	}
}

// Promise: no bytes make the reader panic, and what it accepts lies in the file.
func FuzzParse(f *testing.F) {
	f.Add(small().File())
	for _, c := range broken() {
		f.Add(c.file)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := gguf.Parse(data)
		if err != nil {
			if !errors.Is(err, gguf.ErrFormat) {
				t.Fatal(err)
			}
			return
		}
		for _, key := range []string{"a.count", "a.words", "a.kinds", "a.truth"} {
			_, _ = file.Uint(key)
			_, _ = file.Bool(key)
			_, _ = file.Text(key)
			_, _ = file.Uints(key)
			if words, err := file.Texts(key); err == nil && len(strings.Join(words, ""))+8*len(words) > len(data) {
				t.Errorf("%d strings from %d bytes", len(words), len(data))
			}
		}
		for _, name := range file.Names() {
			if _, err := file.Tensor(name); !errors.Is(err, gguf.ErrTensor) {
				t.Errorf("a tensor without dimensions: %v", err)
			}
		}
	})
}
