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

// ErrNoFacts is the reason of a trace without a single fact.
var ErrNoFacts = errors.New("the trace holds no fact; an empty file is no evidence that nothing happened")

// Reader reads a trace: JSON Lines, one fact a line, blank lines ignored.
// It holds one line in memory, at most MaxLine bytes.
type Reader struct {
	in     *bufio.Reader
	name   string
	dec    *Decoder
	header Header
	line   int
	facts  int
	long   []byte
}

// NewReader reads the trace in; name stands for it in errors.
func NewReader(in io.Reader, name string) *Reader {
	return &Reader{in: bufio.NewReaderSize(in, 64<<10), name: name, dec: NewJSONDecoder()}
}

// Header is the trace's first line, zero where it has none. It is known once
// Next has been called.
func (r *Reader) Header() Header { return r.header }

// Line is the number of the line that Next read last, from 1.
func (r *Reader) Line() int { return r.line }

// Next returns the next fact, io.EOF after the last one, or a *LineError. A
// fact that names no node gets the header's.
func (r *Reader) Next() (*Fact, error) {
	for {
		line, err := r.readLine()
		if err == io.EOF {
			if r.facts == 0 {
				return nil, r.fail(ErrNoFacts)
			}
			return nil, io.EOF
		}
		if err != nil {
			return nil, r.fail(err)
		}
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		f, err := r.fact(line)
		if err != nil {
			return nil, r.fail(err)
		}
		if f != nil {
			r.facts++
			return f, nil
		}
	}
}

func (r *Reader) fail(err error) error { return &LineError{r.name, max(r.line, 1), err} }

// fact decodes a line; the header gives nil.
func (r *Reader) fact(line []byte) (*Fact, error) {
	if r.facts == 0 && r.header.Version == 0 && isHeader(line) {
		return nil, r.readHeader(line)
	}
	f, err := r.dec.Decode(line)
	if err != nil {
		return nil, err
	}
	if f.Node == "" {
		f.Node = r.header.Node
	}
	return f, nil
}

// isHeader looks for the header without decoding: a fact always has "t".
func isHeader(line []byte) bool {
	var h struct {
		Ev string `json:"ev"`
	}
	return bytes.Contains(line, []byte(`"trace"`)) && json.Unmarshal(line, &h) == nil && h.Ev == "trace"
}

func (r *Reader) readHeader(line []byte) error {
	if err := json.Unmarshal(line, &r.header); err != nil {
		return fmt.Errorf("the trace's header: %w", err)
	}
	if r.header.Version != Version {
		return fmt.Errorf("the trace is of version %d, this kvwitness reads version %d", r.header.Version, Version)
	}
	return nil
}

// readLine returns the next line without its end. The last line may lack one.
func (r *Reader) readLine() ([]byte, error) {
	r.long = r.long[:0]
	for {
		part, err := r.in.ReadSlice('\n')
		if err == nil && len(r.long) == 0 {
			r.line++
			return part[:len(part)-1], nil
		}
		if len(r.long)+len(part) > MaxLine {
			r.line++
			return nil, fmt.Errorf("the line is longer than %d bytes, the longest that a fact may be", MaxLine)
		}
		r.long = append(r.long, part...)
		switch {
		case err == bufio.ErrBufferFull:
			continue
		case err == io.EOF && len(r.long) > 0:
			r.line++
			return r.long, nil
		case err != nil:
			return nil, err
		}
		r.line++
		return r.long[:len(r.long)-1], nil
	}
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
		return nil, fmt.Errorf("the trace's header: %w", err)
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
