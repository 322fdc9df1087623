package publish

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
)

// Defaults of a [RecordConfig].
const (
	DefaultRecordBytes = 256 << 20
	DefaultRecordFiles = 8
	// reopenAfter is how long a recording that failed waits before the next file.
	reopenAfter = time.Second
	// maxNumber bounds the search for a file's name that is free.
	maxNumber = 1 << 20
)

// RecordConfig says where a trace is written. Zero fields mean their defaults.
type RecordConfig struct {
	// Path of the first file. It must not exist: what was recorded before is
	// evidence. Later files have a number before the extension: trace.jsonl,
	// trace.1.jsonl, trace.2.jsonl, …
	Path string
	// MaxBytes is the size from which on the next file is begun.
	MaxBytes int64
	// MaxFiles is how many are kept; the oldest goes first.
	MaxFiles int
	// Header of each file.
	Header lifecycle.Header
}

// Recorder writes what an engine does to a trace file. It has the Teller of a
// [Publisher], and no sockets.
type Recorder struct {
	*Teller
	loop     *loop
	file     *recording
	once     sync.Once
	closed   chan struct{}
	closeErr error
}

// NewRecorder begins a trace.
func NewRecorder(id Identity, cfg RecordConfig) (*Recorder, error) {
	if err := id.complete(); err != nil {
		return nil, err
	}
	r := &Recorder{Teller: newTeller(id), closed: make(chan struct{})}
	var err error
	if r.file, err = openRecording(cfg); err != nil {
		return nil, err
	}
	r.loop = newLoop(r.q, newEncoder(id, r.file), r.file.flush, nil)
	go r.loop.run()
	return r, nil
}

// Close writes what is queued and closes the file. It returns earlier if ctx
// ends, and then goes on in the background.
func (r *Recorder) Close(ctx context.Context) error {
	go r.once.Do(func() {
		defer close(r.closed)
		r.q.close()
		<-r.loop.ended
		r.closeErr = r.file.close()
	})
	select {
	case <-r.closed:
		return r.closeErr
	case <-ctx.Done():
		return fmt.Errorf("close the trace: %w", ctx.Err())
	}
}

// recording is the output that writes a trace. Each file after the first begins
// with the pools, since attach, so that it can be judged without those before it.
type recording struct {
	cfg    RecordConfig
	file   *os.File
	out    *lifecycle.Writer
	size   int64
	number int      // of the present file
	files  []string // kept, the oldest first
	pools  []lifecycle.Fact
	retry  time.Time // before it, nothing is written
	err    error     // the last one

	written, lost, failures atomic.Uint64
}

func openRecording(cfg RecordConfig) (*recording, error) {
	if cfg.MaxBytes <= 0 {
		cfg.MaxBytes = DefaultRecordBytes
	}
	if cfg.MaxFiles <= 0 {
		cfg.MaxFiles = DefaultRecordFiles
	}
	r := &recording{cfg: cfg}
	if err := r.create(cfg.Path); err != nil {
		return nil, fmt.Errorf("begin a trace of lifecycle events: %w", err)
	}
	return r, nil
}

// Write counts what reaches the file.
func (r *recording) Write(p []byte) (int, error) {
	n, err := r.file.Write(p)
	r.size += int64(n)
	return n, err
}

func (r *recording) create(path string) (err error) {
	if r.file, err = os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600); err != nil {
		return err
	}
	r.size = 0
	if r.out, err = lifecycle.NewWriter(r, r.cfg.Header); err != nil {
		return errors.Join(err, r.file.Close())
	}
	r.files = append(r.files, path)
	for len(r.files) > r.cfg.MaxFiles {
		if err := os.Remove(r.files[0]); err != nil && !errors.Is(err, fs.ErrNotExist) {
			r.failed(err)
		}
		r.files = r.files[1:]
	}
	return nil
}

// next begins the next file, with the pools as they stand at t.
func (r *recording) next(t int64) error {
	ext := filepath.Ext(r.cfg.Path)
	base := strings.TrimSuffix(r.cfg.Path, ext)
	for r.number++; ; r.number++ {
		err := r.create(fmt.Sprintf("%s.%d%s", base, r.number, ext))
		if errors.Is(err, fs.ErrExist) && r.number < maxNumber {
			continue
		}
		if err != nil {
			return err
		}
		break
	}
	for i := range r.pools {
		f := &r.pools[i]
		f.T = t
		if err := r.out.Write(f); err != nil {
			return err
		}
	}
	return nil
}

func (r *recording) say(f *lifecycle.Fact) {
	if f.Ev == lifecycle.PoolOpened {
		spec := *f.Spec
		spec.Since = lifecycle.SinceAttach
		opened := *f
		opened.Seq, opened.Spec = lifecycle.Opt[uint64]{}, &spec
		r.pools = append(r.pools, opened)
	}
	if r.out == nil && (time.Now().Before(r.retry) || !r.renew(f.T)) {
		r.lost.Add(1)
		return
	}
	if r.size >= r.cfg.MaxBytes && !(r.finish() && r.renew(f.T)) {
		r.lost.Add(1)
		return
	}
	if err := r.out.Write(f); err != nil {
		r.lost.Add(1)
		r.failed(err)
		r.abandon()
		return
	}
	r.written.Add(1)
}

// renew begins the next file, or says that it must be tried later.
func (r *recording) renew(t int64) bool {
	if err := r.next(t); err != nil {
		r.failed(err)
		r.abandon()
		return false
	}
	return true
}

// finish ends the present file well.
func (r *recording) finish() bool {
	err := errors.Join(r.out.Flush(), r.file.Close())
	r.out, r.file = nil, nil
	if err != nil {
		r.failed(err)
		r.retry = time.Now().Add(reopenAfter)
	}
	return err == nil
}

// abandon ends a file that cannot be written.
func (r *recording) abandon() {
	if r.file != nil {
		_ = r.file.Close() // the reason is known
	}
	r.out, r.file = nil, nil
	r.retry = time.Now().Add(reopenAfter)
}

func (r *recording) failed(err error) {
	r.err = err
	r.failures.Add(1)
}

func (r *recording) flush() {
	if r.out == nil {
		return
	}
	if err := r.out.Flush(); err != nil {
		r.failed(err)
		r.abandon()
	}
}

// close ends the recording, and returns why it is not whole, if it is not.
func (r *recording) close() error {
	if r.out != nil {
		r.finish()
	}
	if r.err != nil {
		return fmt.Errorf("write the trace of lifecycle events: %d facts are missing: %w", r.lost.Load(), r.err)
	}
	return nil
}
