package evidence

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"os"
)

// A bbolt file begins with two pages that each hold a head: where the tree of one
// transaction begins. They are written in turn. Source: go.etcd.io/bbolt, format
// version 2 (internal/common, Page and Meta), in the machine's byte order.
const (
	headAt       = 16 // in its page
	headPageSize = 8  // in the head: how long a page is, 32 bits
	headSum      = 56 // in the head: FNV-64a of all before it
	headBytes    = 64
	maxPage      = 1 << 20
)

// wholeHeads reports a head that is damaged. bbolt opens such a file by the other
// head without a word, and with it the store as it was before its last entry. A head
// lies within one sector, so that no power cut leaves half of one. A file that is not
// there, or is empty, has none yet.
func wholeHeads(path string) error {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("open the evidence: %w", err)
	}
	defer f.Close()
	first, err := readHead(f, 0)
	if errors.Is(err, io.EOF) {
		return nil
	}
	if err != nil {
		return err
	}
	page := binary.NativeEndian.Uint32(first[headPageSize:])
	if page < headAt+headBytes || page > maxPage {
		return fmt.Errorf("%w: pages of %d bytes", ErrBroken, page)
	}
	_, err = readHead(f, int64(page))
	return err
}

// readHead reads the head of the page at an offset; io.EOF: the file ends before it.
func readHead(f io.ReaderAt, page int64) (head [headBytes]byte, err error) {
	n, err := f.ReadAt(head[:], page+headAt)
	if n == 0 && page == 0 && errors.Is(err, io.EOF) {
		return head, io.EOF
	}
	if n < headBytes {
		return head, fmt.Errorf("%w: it ends within its heads", ErrBroken)
	}
	sum := fnv.New64a()
	_, _ = sum.Write(head[:headSum])
	if sum.Sum64() != binary.NativeEndian.Uint64(head[headSum:]) {
		return head, fmt.Errorf("%w: the head at byte %d does not fit its checksum; what was kept last may be missing", ErrBroken, page)
	}
	return head, nil
}
