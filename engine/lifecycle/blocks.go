package lifecycle

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"sync"
)

// blockBytes is how much of a trace is read at once, a line that is longer aside.
const blockBytes = 64 << 10

// maxEmptyReads is how often in a row a source may give nothing and no error.
const maxEmptyReads = 100

// block is a run of whole lines of one trace.
type block struct {
	trace string // its name in errors
	node  string // of the facts that name none
	line  int    // how many lines of the trace came before data
	data  []byte
	whole []byte // the memory that data began in
}

// next decodes the fact on the next line that is not blank; io.EOF at the end.
func (b *block) next(dec *Decoder) (*Fact, error) {
	for len(b.data) > 0 {
		line, rest, _ := bytes.Cut(b.data, []byte{'\n'})
		b.data = rest
		b.line++
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		f, err := dec.Decode(line)
		if err != nil {
			if isHeader(line) {
				err = fmt.Errorf("%w: it stands among facts; give traces that were joined as files of their own", ErrHeader)
			}
			b.data = nil
			return nil, &LineError{b.trace, b.line, err}
		}
		if f.Node == "" {
			f.Node = b.node
		}
		return f, nil
	}
	return nil, io.EOF
}

// blocks cuts a trace into blocks and reads its header.
type blocks struct {
	in     io.Reader
	name   string
	header Header
	begun  bool // the first line that is not blank has been looked at
	lines  int  // handed on in blocks
	carry  []byte
	err    error // of in, once it has one
}

func newBlocks(in io.Reader, name string) *blocks { return &blocks{in: in, name: name} }

// next returns the next block that is not empty, io.EOF after the last one, or
// why there is none. What is whole before damage is handed on first.
func (s *blocks) next() (block, error) {
	for {
		data, err := s.fill()
		if err != nil {
			return block{}, err
		}
		b := block{trace: s.name, line: s.lines, data: data, whole: data}
		s.lines += bytes.Count(data, []byte{'\n'})
		if !s.begun {
			if err := s.begin(&b); err != nil {
				s.err = err
				s.lines = b.line
				return block{}, err
			}
		}
		b.node = s.header.Node
		if len(b.data) > 0 {
			return b, nil
		}
		b.recycle()
	}
}

// fill reads until it has a whole line, and returns all whole lines it has; at
// the end of the trace also a last one without its line end.
func (s *blocks) fill() ([]byte, error) {
	buf := append(spare.Get().(*[blockBytes]byte)[:0], s.carry...)
	s.carry = s.carry[:0]
	for empty := 0; ; {
		if s.err != nil {
			// What is left of a trace that breaks off is no line.
			if len(buf) == 0 || !errors.Is(s.err, io.EOF) {
				return nil, s.err
			}
			return buf, nil
		}
		if len(buf) == cap(buf) {
			if len(buf) > MaxLine {
				s.err = ErrTooLong
				return nil, s.err
			}
			buf = append(make([]byte, 0, 2*cap(buf)), buf...)
		}
		before := len(buf)
		n, err := s.in.Read(buf[before:cap(buf)])
		buf, s.err = buf[:before+n], err
		if n > 0 {
			empty = 0
		} else if empty++; empty == maxEmptyReads && err == nil {
			s.err = io.ErrNoProgress
		}
		if end := bytes.LastIndexByte(buf[before:], '\n'); end >= 0 {
			end += before + 1
			s.carry = append(s.carry, buf[end:]...)
			return buf[:end], nil
		}
	}
}

// begin takes the header off the first block that is not blank.
func (s *blocks) begin(b *block) error {
	for len(b.data) > 0 {
		line, rest, _ := bytes.Cut(b.data, []byte{'\n'})
		if line = bytes.TrimSpace(line); len(line) > 0 {
			s.begun = true
			if !isHeader(line) {
				return nil
			}
		}
		b.data = rest
		b.line++
		if s.begun {
			var err error
			if s.header, err = readHeader(line); err != nil {
				b.line-- // ended counts from the line before
			}
			return err
		}
	}
	return nil
}

// ended turns what next said into what a reader says after so many facts.
func (s *blocks) ended(err error, facts int) error {
	switch {
	case errors.Is(err, io.EOF) && facts > 0:
		return io.EOF
	case errors.Is(err, io.EOF):
		return &LineError{s.name, max(s.lines, 1), ErrNoFacts}
	}
	return &LineError{s.name, s.lines + 1, err}
}

// spare holds the memory of blocks that have been decoded.
var spare = sync.Pool{New: func() any { return new([blockBytes]byte) }}

func (b *block) recycle() {
	if cap(b.whole) == blockBytes {
		spare.Put((*[blockBytes]byte)(b.whole[:blockBytes]))
	}
	*b = block{line: b.line}
}
