package lifecycle

import (
	"io"
	"sync"
)

// ParallelReader reads a trace as Reader does and gives the same facts in the
// same order, but decodes ahead on goroutines of its own, so that whoever
// judges the facts has a core to itself. It holds at most 2 blocks for each of
// them, encoded or decoded.
type ParallelReader struct {
	blocks *blocks
	ahead  chan chan decoded // in the order of the trace
	stop   chan struct{}
	once   sync.Once
	ended  error // why no block follows; set before ahead is closed

	now   decoded
	at    int // in now.facts
	facts int
	err   error
}

// decoded is what one block held; err ends the trace.
type decoded struct {
	facts []*Fact
	err   error
}

type job struct {
	block block
	reply chan decoded
}

// NewParallelReader reads the trace in with that many decoding goroutines, at
// least one; name stands for it in errors. Close ends them.
func NewParallelReader(in io.Reader, name string, workers int) *ParallelReader {
	workers = max(workers, 1)
	r := &ParallelReader{
		blocks: newBlocks(in, name),
		ahead:  make(chan chan decoded, workers),
		stop:   make(chan struct{}),
	}
	jobs := make(chan job)
	for range workers {
		go work(jobs)
	}
	go r.cut(jobs)
	return r
}

// cut hands each block to a worker and its reply to Next.
func (r *ParallelReader) cut(jobs chan<- job) {
	defer close(r.ahead)
	defer close(jobs)
	for {
		b, err := r.blocks.next()
		if err != nil {
			r.ended = err
			return
		}
		reply := make(chan decoded, 1)
		select {
		case r.ahead <- reply:
		case <-r.stop:
			return
		}
		select {
		case jobs <- job{b, reply}:
		case <-r.stop:
			return
		}
	}
}

func work(jobs <-chan job) {
	dec := NewJSONDecoder()
	for j := range jobs {
		j.reply <- j.block.decode(dec)
	}
}

// decode reads all facts of a block.
func (b *block) decode(dec *Decoder) (d decoded) {
	const usualLine = 200 // bytes
	d.facts = make([]*Fact, 0, len(b.data)/usualLine)
	for {
		f, err := b.next(dec)
		if err != nil {
			if err != io.EOF {
				d.err = err
			}
			b.recycle()
			return d
		}
		d.facts = append(d.facts, f)
	}
}

// Header is the trace's first line, zero where it has none. It is known once
// Next has been called.
func (r *ParallelReader) Header() Header { return r.blocks.header }

// Next returns the next fact, io.EOF after the last one, or a *LineError, which
// ends the trace. It must not be called once Close was.
func (r *ParallelReader) Next() (*Fact, error) {
	for r.err == nil {
		if r.at < len(r.now.facts) {
			f := r.now.facts[r.at]
			r.now.facts[r.at] = nil
			r.at++
			r.facts++
			return f, nil
		}
		if r.err = r.now.err; r.err != nil {
			break
		}
		reply, more := <-r.ahead
		if !more {
			r.err = r.blocks.ended(r.ended, r.facts)
			break
		}
		r.now, r.at = <-reply, 0
	}
	return nil, r.err
}

// Close ends the goroutines. It does not wait for a Read of the trace that is
// under way; close the source for that. It may be called more than once.
func (r *ParallelReader) Close() { r.once.Do(func() { close(r.stop) }) }
