// Package probe is what kvwitness-probe and the sidecar say to each other, and
// how the sidecar starts it.
//
// The probe is the only process with rights. It listens nowhere: the sidecar
// hands it one end of a socket pair, or names a socket on which the sidecar
// listens. It hands on what its programs in the kernel said, record by record,
// unread, and says in between how far it has come and what was lost.
//
// It imports no BPF loader and no package of engines. It promises:
//   - every frame is bounded, and one that breaks the format ends the connection;
//   - a sidecar that does not read makes the probe wait, and what its rings lose
//     meanwhile is counted: an engine never waits for either;
//   - a probe whose sidecar is gone ends.
package probe

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// Version of what is said; both sides come from one build.
const Version = 4

// MaxFrame is the longest payload of a frame, in bytes.
const MaxFrame = 32 << 10

// ErrFormat is returned for bytes that are no frames.
var ErrFormat = errors.New("malformed frame of the probe")

// Kind says what a frame holds.
type Kind uint8

// The kinds of frames.
const (
	Hello     Kind = 1 + iota // the version, u32: everything is attached
	Transfer                  // a record of bpf/tcpxfer
	Control                   // a record of bpf/pdwire
	Process                   // a [Seen]
	Progress                  // a [Mark]
	Problem                   // text: something does not work, and the remedy
	Gone                      // the inode of a socket that was followed and is no more, u64
	Verbs                     // a record of bpf/verbs
	Sight                     // an [Attached]
	UCX                       // a record of bpf/ucp
	CUDA                      // a record of bpf/cuda
	CUDASight                 // an [Attached]: whether all that a process asks of the CUDA driver is seen
	numKind
)

const headBytes = 5

// Writer writes frames. It is for one goroutine.
type Writer struct{ out *bufio.Writer }

// NewWriter returns a Writer. The sidecar waits for [Writer.Hello], or for a
// problem.
func NewWriter(w io.Writer) *Writer {
	const buffer = 256 << 10
	return &Writer{bufio.NewWriterSize(w, buffer)}
}

// Hello queues the word that the probe watches, with everything that it says
// until the next Flush.
func (w *Writer) Hello() error {
	return w.Frame(Hello, binary.LittleEndian.AppendUint32(nil, Version))
}

// Frame queues a frame. A payload beyond MaxFrame is an error.
func (w *Writer) Frame(k Kind, payload []byte) error {
	if len(payload) > MaxFrame {
		return fmt.Errorf("write a frame of %d bytes: %w", len(payload), ErrFormat)
	}
	var head [headBytes]byte
	binary.LittleEndian.PutUint32(head[:], uint32(len(payload)))
	head[4] = byte(k)
	if _, err := w.out.Write(head[:]); err != nil {
		return fmt.Errorf("write to the sidecar: %w", err)
	}
	if _, err := w.out.Write(payload); err != nil {
		return fmt.Errorf("write to the sidecar: %w", err)
	}
	return nil
}

// Flush sends what is queued.
func (w *Writer) Flush() error {
	if err := w.out.Flush(); err != nil {
		return fmt.Errorf("write to the sidecar: %w", err)
	}
	return nil
}

// Reader reads frames. It is for one goroutine.
type Reader struct {
	in      *bufio.Reader
	payload [MaxFrame]byte
}

// NewReader returns a Reader once the probe has said hello. A problem that it has
// instead is the error.
func NewReader(r io.Reader) (*Reader, error) {
	const buffer = 64 << 10
	in := &Reader{in: bufio.NewReaderSize(r, buffer)}
	k, b, err := in.Next()
	if err != nil {
		return nil, err
	}
	if k == Problem {
		return nil, fmt.Errorf("the probe cannot watch: %s", b)
	}
	if k != Hello || len(b) != 4 || binary.LittleEndian.Uint32(b) != Version {
		return nil, fmt.Errorf("the probe does not say version %d; install both from one build: %w", Version, ErrFormat)
	}
	return in, nil
}

// Next reads a frame; the payload is valid until the next call.
func (r *Reader) Next() (Kind, []byte, error) {
	var head [headBytes]byte
	if _, err := io.ReadFull(r.in, head[:]); err != nil {
		return 0, nil, fmt.Errorf("read from the probe: %w", err)
	}
	n, k := binary.LittleEndian.Uint32(head[:]), Kind(head[4])
	if n > MaxFrame || k < Hello || k >= numKind {
		return 0, nil, fmt.Errorf("read a frame of kind %d, %d bytes: %w", k, n, ErrFormat)
	}
	if _, err := io.ReadFull(r.in, r.payload[:n]); err != nil {
		return 0, nil, fmt.Errorf("read from the probe: %w", err)
	}
	return k, r.payload[:n], nil
}
