// Package report hands on what the judge says: every finding and verdict as a
// JSON line, of the form of `kvwitness replay --json --verdicts`, and the last
// ones for whoever asks.
//
// It imports sidecar/finding and engine/lifecycle. It promises: nothing here
// waits for a reader; what is kept or waits is bounded, and what is dropped is
// counted; a finding that is kept has at most [MaxList] runs of pages and as many
// exposed parties, and says if it had more.
package report

import (
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/kvwitness/kvwitness/sidecar/finding"
)

// Bounds of what is kept.
const (
	// Kept is how many findings, and how many verdicts, are kept. Where there are
	// more, the oldest of the instance that has most go first.
	Kept = 256
	// MaxList is how many runs of pages and exposed parties of a finding are kept.
	MaxList = 64
	// QueueBytes bounds the lines that wait for their reader.
	QueueBytes = 4 << 20
)

// Entry is one finding or verdict that is kept.
type Entry struct {
	ID      uint64         `json:"id"` // from 1
	At      time.Time      `json:"at"` // when it was said
	Delay   float64        `json:"delay_seconds,omitzero"`
	Trimmed bool           `json:"trimmed,omitzero"`
	Shadow  bool           `json:"shadow,omitzero"`
	Said    jsontext.Value `json:"said"`
}

// Log keeps the last findings and verdicts, and writes lines. Its methods may be
// called from any goroutine.
type Log struct {
	out io.Writer

	mu       sync.Mutex
	findings ring
	verdicts ring
	queue    []byte
	closed   bool
	wake     chan struct{}
	ended    chan struct{}

	dropped atomic.Uint64
}

// ring is what is kept, the oldest first. Once it is full, whoever has most in it
// makes room: an instance that breaks rules without end pushes out its own.
type ring struct {
	all   []Entry
	about []string       // the instance of each
	count map[string]int // by instance
	next  uint64         // ID of the last entry
}

func (r *ring) add(inst string, e Entry) uint64 {
	r.next++
	e.ID = r.next
	if len(r.all) == Kept {
		r.drop()
	}
	if r.count == nil {
		r.count = map[string]int{}
	}
	r.all, r.about = append(r.all, e), append(r.about, inst)
	r.count[inst]++
	return e.ID
}

// drop takes out the oldest entry of the instance that has most.
func (r *ring) drop() {
	most := 0
	for _, n := range r.count {
		most = max(most, n)
	}
	i := slices.IndexFunc(r.about, func(inst string) bool { return r.count[inst] == most })
	inst := r.about[i]
	if r.count[inst]--; r.count[inst] == 0 {
		delete(r.count, inst)
	}
	r.all, r.about = slices.Delete(r.all, i, i+1), slices.Delete(r.about, i, i+1)
}

// since are the entries after that ID, the oldest first, at most limit of them.
func (r *ring) since(id uint64, limit int) []Entry {
	out := []Entry{}
	for _, e := range r.all {
		if e.ID > id && len(out) < limit {
			out = append(out, e)
		}
	}
	return out
}

// New writes lines to out, which may be nil, until Close.
func New(out io.Writer) *Log {
	l := &Log{out: out, wake: make(chan struct{}, 1), ended: make(chan struct{})}
	go l.write()
	return l
}

// Finding says a finding and returns its ID. delay is the time from its fact to
// now, 0 if that is not known.
func (l *Log) Finding(f *finding.Finding, delay time.Duration, shadow bool) uint64 {
	line := encode(f)
	kept, trimmed := *f, false
	if len(kept.Pages) > MaxList || len(kept.Exposed) > MaxList {
		kept.Pages, kept.Exposed = kept.Pages[:min(MaxList, len(kept.Pages))], kept.Exposed[:min(MaxList, len(kept.Exposed))]
		trimmed = true
	}
	e := Entry{At: time.Now(), Delay: delay.Seconds(), Trimmed: trimmed, Shadow: shadow, Said: line}
	if trimmed {
		e.Said = encode(&kept)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.line(line)
	return l.findings.add(f.Inst, e)
}

// Verdict says a verdict.
func (l *Log) Verdict(v *finding.Verdict) {
	line := encode(v)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.line(line)
	l.verdicts.add(v.Inst, Entry{At: time.Now(), Said: line})
}

// encode cannot fail: these types hold nothing that JSON does not have, and text
// that is not UTF-8 is replaced.
func encode(v any) jsontext.Value {
	line, _ := json.Marshal(v, json.Deterministic(true), jsontext.AllowInvalidUTF8(true))
	return line
}

// line queues a line for the reader.
func (l *Log) line(line []byte) {
	if l.out == nil || l.closed {
		return
	}
	if len(l.queue)+len(line)+1 > QueueBytes {
		l.dropped.Add(1)
		return
	}
	l.queue = append(append(l.queue, line...), '\n')
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// write hands the lines on, as fast as their reader takes them.
func (l *Log) write() {
	defer close(l.ended)
	var buf []byte
	for range l.wake {
		l.mu.Lock()
		buf, l.queue = l.queue, buf[:0]
		l.mu.Unlock()
		if len(buf) > 0 {
			if _, err := l.out.Write(buf); err != nil {
				l.dropped.Add(1)
			}
		}
	}
}

// Findings are the kept ones after that ID, at most limit.
func (l *Log) Findings(since uint64, limit int) []Entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.findings.since(since, limit)
}

// Verdicts are the kept ones after that ID, at most limit.
func (l *Log) Verdicts(since uint64, limit int) []Entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.verdicts.since(since, limit)
}

// Dropped counts lines, or writes of lines, that came to nothing.
func (l *Log) Dropped() uint64 { return l.dropped.Load() }

// Waiting is how many bytes of lines wait, of QueueBytes.
func (l *Log) Waiting() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.queue)
}

// Close hands on what waits, for at most that long.
func (l *Log) Close(wait time.Duration) {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return
	}
	l.closed = true
	close(l.wake)
	l.mu.Unlock()
	select {
	case <-l.ended:
	case <-time.After(wait):
	}
}
