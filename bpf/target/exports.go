package target

import (
	"debug/elf"
	"encoding/binary"
	"fmt"
	"io"
)

// Exports reports whether an object exports a function of that name, as its table of
// hashes (.gnu.hash) says. It reads a few words of the file, where [Object.Symbol]
// reads all symbols: it is for asking each file that a process has mapped.
func Exports(r io.ReaderAt, name string) (found bool, err error) {
	defer func() {
		// debug/elf is not hardened against hostile files.
		if p := recover(); p != nil {
			found, err = false, fmt.Errorf("read the object: %v", p)
		}
	}()
	f, err := elf.NewFile(r)
	if err != nil {
		return false, fmt.Errorf("read the object: %w", err)
	}
	t := hashes{table: f.Section(".gnu.hash"), symbols: f.Section(".dynsym"), names: f.Section(".dynstr"), order: f.ByteOrder}
	if f.Class != elf.ELFCLASS64 || t.table == nil || t.symbols == nil || t.names == nil {
		return false, nil // it exports nothing
	}
	found = t.find(name)
	if t.err != nil {
		return false, fmt.Errorf("read the hashes of the symbols: %w", t.err)
	}
	return found, nil
}

// hashes is the table of the hashes of an object's symbols: four words (buckets, the
// first symbol that has a hash, words of a Bloom filter, its shift), the filter, the
// buckets' first symbols, and the hash of each symbol, whose last bit ends a bucket.
type hashes struct {
	table, symbols, names *elf.Section
	order                 binary.ByteOrder
	err                   error
}

func (t *hashes) bytes(of *elf.Section, at uint64, n int) []byte {
	b := make([]byte, n)
	if t.err == nil && at > of.Size {
		t.err = io.ErrUnexpectedEOF
	}
	if t.err == nil {
		_, t.err = of.ReadAt(b, int64(at))
	}
	return b
}

func (t *hashes) word(at uint64) uint64 { return uint64(t.order.Uint32(t.bytes(t.table, at, 4))) }

func (t *hashes) find(name string) bool {
	const head, bits = 16, 64
	hash := uint64(hashOf(name))
	buckets, first, filter, shift := t.word(0), t.word(4), t.word(8), t.word(12)
	if t.err != nil || buckets == 0 || filter == 0 {
		return false
	}
	set := t.order.Uint64(t.bytes(t.table, head+8*(hash/bits%filter), 8))
	if want := uint64(1)<<(hash%bits) | uint64(1)<<(hash>>(shift%32)%bits); set&want != want {
		return false
	}
	at := head + 8*filter
	symbol := t.word(at + 4*(hash%buckets))
	if symbol < first {
		return false
	}
	for at += 4 * buckets; t.err == nil && symbol-first < t.table.Size/4; symbol++ {
		has := t.word(at + 4*(symbol-first))
		if has|1 == hash|1 && t.is(symbol, name) {
			return true
		}
		if has&1 != 0 {
			return false
		}
	}
	return false
}

// is reports whether a symbol is a function that the object has, of that name.
func (t *hashes) is(symbol uint64, name string) bool {
	const size, info, section = 24, 4, 6
	s := t.bytes(t.symbols, symbol*size, size)
	if elf.ST_TYPE(s[info]) != elf.STT_FUNC || elf.SectionIndex(t.order.Uint16(s[section:])) == elf.SHN_UNDEF {
		return false
	}
	return string(t.bytes(t.names, uint64(t.order.Uint32(s)), len(name)+1)) == name+"\x00" && t.err == nil
}

// hashOf is the hash of .gnu.hash.
func hashOf(name string) uint32 {
	h := uint32(5381)
	for i := range len(name) {
		h = h*33 + uint32(name[i])
	}
	return h
}
