// Package record writes the facts that a sidecar judges to trace files of format
// v1, which `kvwitness replay` reads: the present one under its name, older ones
// with a number, the newest of them .1.
//
// It imports engine/lifecycle. It promises: [Recorder.Fact] never waits, whatever
// the disk does; what did not fit is counted and said in the trace itself, as
// events_lost; no file grows beyond its limit by more than a fact, and no more
// than so many files are kept; no file is overwritten while it is written to.
package record

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
)

// QueueBytes bounds what waits for the disk.
const QueueBytes = 16 << 20

// flushEvery is how long a fact waits to be written at most, if the disk allows.
const flushEvery = 200 * time.Millisecond

// Config says where to write. All fields but Header must be set.
type Config struct {
	Path   string
	Bytes  int // at which a file is put aside
	Files  int // that are kept, the present one included
	Header lifecycle.Header
}

// Stats counts what was recorded.
type Stats struct {
	Written  uint64 // facts handed to the disk
	Lost     uint64 // facts that did not fit, or whose write failed
	Rotated  uint64
	Failures uint64 // writes that failed
	Waiting  int    // bytes, of QueueBytes
}

// Recorder records. Fact is for one goroutine, Stats for any.
type Recorder struct {
	cfg  Config
	file *os.File // of the writer's goroutine
	size int

	mu     sync.Mutex
	buf    []byte
	facts  uint64 // in buf
	untold uint64 // lost since the trace said so last
	closed bool
	wake   chan struct{}
	ended  chan struct{}

	written, lost, rotated, failures atomic.Uint64
	waiting                          atomic.Int64
}

// New begins a trace file. One that is there already is put aside.
func New(cfg Config) (*Recorder, error) {
	r, err := prepare(cfg)
	if err != nil {
		return nil, err
	}
	go r.run()
	return r, nil
}

func prepare(cfg Config) (*Recorder, error) {
	r := &Recorder{cfg: cfg, wake: make(chan struct{}, 1), ended: make(chan struct{})}
	return r, r.begin()
}

// Fact records f, unless the disk is too slow.
func (r *Recorder) Fact(f *lifecycle.Fact) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed || len(r.buf) >= QueueBytes {
		r.lost.Add(1)
		r.untold++
		return
	}
	if r.untold > 0 {
		r.say(&lifecycle.Fact{
			T: f.T, Node: r.cfg.Header.Node, Src: lifecycle.Sidecar, Ev: lifecycle.EventsLost, Of: lifecycle.Engine,
			Count: r.untold, Stage: "record", Reason: "the disk is too slow",
		})
		r.untold = 0
	}
	r.say(f)
	r.facts++
	if len(r.buf) >= 1<<20 {
		r.poke()
	}
}

func (r *Recorder) say(f *lifecycle.Fact) {
	r.buf = append(f.AppendJSON(r.buf), '\n')
	r.waiting.Store(int64(len(r.buf)))
}

func (r *Recorder) poke() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// run writes what waits until the recorder is closed.
func (r *Recorder) run() {
	defer close(r.ended)
	timer := time.NewTicker(flushEvery)
	defer timer.Stop()
	var buf []byte
	for {
		select {
		case <-timer.C:
		case <-r.wake:
		}
		r.mu.Lock()
		buf, r.buf = r.buf, buf[:0]
		facts, closed := r.facts, r.closed
		r.facts = 0
		r.waiting.Store(0)
		r.mu.Unlock()
		r.write(buf, facts)
		if closed {
			return
		}
	}
}

// write puts whole lines into the file; where that fails, they are lost.
func (r *Recorder) write(buf []byte, facts uint64) {
	if len(buf) == 0 {
		return
	}
	n, err := r.file.Write(buf)
	r.size += n
	if err != nil {
		r.failures.Add(1)
		r.lost.Add(facts)
		r.mu.Lock()
		r.untold += facts
		r.mu.Unlock()
	} else {
		r.written.Add(facts)
	}
	if r.size >= r.cfg.Bytes || err != nil && n > 0 { // no line is continued in the middle
		if err := r.rotate(); err != nil {
			r.failures.Add(1)
		}
	}
}

// rotate puts the present file aside.
func (r *Recorder) rotate() error {
	err := r.file.Close()
	r.rotated.Add(1)
	return errors.Join(err, r.begin())
}

// begin opens a new file, after older ones were given the next number.
func (r *Recorder) begin() error {
	names := []string{r.cfg.Path}
	for i := 1; i < r.cfg.Files; i++ {
		names = append(names, r.cfg.Path+"."+strconv.Itoa(i))
	}
	for i := len(names) - 1; i > 0; i-- {
		if err := os.Rename(names[i-1], names[i]); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("put an older trace aside: %w", err)
		}
	}
	file, err := os.OpenFile(r.cfg.Path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("begin a trace: %w", err)
	}
	r.file, r.size = file, 0
	w, err := lifecycle.NewWriter(file, r.cfg.Header)
	if err != nil {
		return err
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("begin a trace: %w", err)
	}
	return nil
}

// Close writes what waits and closes the file. Facts after it are lost.
func (r *Recorder) Close() error {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.poke()
	<-r.ended
	return r.file.Close()
}

// Stats returns the counts so far.
func (r *Recorder) Stats() Stats {
	return Stats{
		Written: r.written.Load(), Lost: r.lost.Load(), Rotated: r.rotated.Load(), Failures: r.failures.Load(),
		Waiting: int(r.waiting.Load()),
	}
}
