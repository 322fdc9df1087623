package lifecycle

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/go-json-experiment/json"
)

// Version is the version of the trace format.
const Version = 1

// Header is the optional first line of a trace file.
type Header struct {
	Ev        string `json:"ev"` // "trace"
	Version   int    `json:"version"`
	Node      string `json:"node,omitzero"`
	Boot      string `json:"boot,omitzero"` // the node's boot id
	Wall      string `json:"wall,omitzero"` // wall clock at t = 0, RFC 3339
	DomainKey string `json:"domain_key,omitzero"`
}

// LineError says which line of which trace could not be read, and why.
type LineError struct {
	File string
	Line int // from 1
	Err  error
}

func (e *LineError) Error() string { return fmt.Sprintf("%s:%d: %v", e.File, e.Line, e.Err) }
func (e *LineError) Unwrap() error { return e.Err }

// Why a trace cannot be read beyond damage to a single fact, which is ErrFact.
var (
	ErrNoFacts = errors.New("the trace holds no fact; an empty file is no evidence that nothing happened")
	ErrTooLong = fmt.Errorf("the line is longer than %d bytes, the longest that a fact may be", MaxLine)
	ErrHeader  = errors.New("not a header of trace format v1")
)

// Reader reads a trace: JSON Lines, one fact a line, blank lines ignored. It
// holds one block of lines in memory: 64 KiB, or one line of at most MaxLine.
type Reader struct {
	blocks *blocks
	block  block
	dec    *Decoder
	facts  int
	err    error
}

// NewReader reads the trace in; name stands for it in errors.
func NewReader(in io.Reader, name string) *Reader {
	return &Reader{blocks: newBlocks(in, name), dec: NewJSONDecoder()}
}

// Header is the trace's first line, zero where it has none. It is known once
// Next has been called.
func (r *Reader) Header() Header { return r.blocks.header }

// Line is the number of the line that Next read last, from 1.
func (r *Reader) Line() int { return r.block.line }

// Next returns the next fact, io.EOF after the last one, or a *LineError, which
// ends the trace. A fact that names no node gets the header's.
func (r *Reader) Next() (*Fact, error) {
	for r.err == nil {
		f, err := r.block.next(r.dec)
		switch {
		case err == nil:
			r.facts++
			return f, nil
		case err != io.EOF:
			r.err = err
			continue
		}
		r.block.recycle()
		next, err := r.blocks.next()
		if err != nil {
			r.err = r.blocks.ended(err, r.facts)
			continue
		}
		r.block = next
	}
	return nil, r.err
}

// Writer writes a trace. Call Flush at the end.
type Writer struct {
	out *bufio.Writer
	buf []byte
}

// NewWriter writes a trace to out, beginning with a header.
func NewWriter(out io.Writer, header Header) (*Writer, error) {
	header.Ev, header.Version = "trace", Version
	w := &Writer{out: bufio.NewWriterSize(out, 64<<10)}
	line, err := json.Marshal(header, json.Deterministic(true))
	if err != nil {
		return nil, fmt.Errorf("write the trace's header: %w", err)
	}
	_, err = w.out.Write(append(line, '\n'))
	return w, err
}

// Write appends one fact.
func (w *Writer) Write(f *Fact) error {
	w.buf = append(f.AppendJSON(w.buf[:0]), '\n')
	_, err := w.out.Write(w.buf)
	return err
}

// Flush hands on what is still in memory.
func (w *Writer) Flush() error { return w.out.Flush() }

// isHeader looks for the header without decoding: a fact always has "t".
func isHeader(line []byte) bool {
	var h struct {
		Ev string `json:"ev"`
	}
	return bytes.Contains(line, []byte(`"trace"`)) && json.Unmarshal(line, &h) == nil && h.Ev == "trace"
}

func readHeader(line []byte) (h Header, err error) {
	if err := json.Unmarshal(line, &h); err != nil {
		return h, fmt.Errorf("%w: %w", ErrHeader, err)
	}
	if h.Version != Version {
		return h, fmt.Errorf("%w: the trace is of version %d, this kvwitness reads version %d", ErrHeader, h.Version, Version)
	}
	return h, nil
}
