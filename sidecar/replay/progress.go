package replay

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// Progress shows on a terminal how far a long replay is. It reads two counters
// that the replay keeps anyway and costs it nothing.
type Progress struct {
	stop, done chan struct{}
	once       sync.Once
}

const (
	progressAfter = 2 * time.Second // a replay that is shorter needs none
	progressEvery = 200 * time.Millisecond
)

// ShowProgress begins to show it on w.
func ShowProgress(w io.Writer, t *Traces) *Progress {
	p := &Progress{stop: make(chan struct{}), done: make(chan struct{})}
	go p.show(w, t)
	return p
}

// Stop wipes the line. It may be called more than once.
func (p *Progress) Stop() {
	p.once.Do(func() { close(p.stop) })
	<-p.done
}

// Before is w, with the progress stopped before the first thing is written to
// it: for writers that lead to the same terminal.
func (p *Progress) Before(w io.Writer) io.Writer { return stopping{w, p} }

type stopping struct {
	io.Writer
	progress *Progress
}

func (s stopping) Write(b []byte) (int, error) {
	s.progress.Stop()
	return s.Writer.Write(b)
}

func (p *Progress) show(w io.Writer, t *Traces) {
	defer close(p.done)
	began := time.Now()
	shown := false
	tick := time.NewTicker(progressEvery)
	defer tick.Stop()
	for {
		select {
		case <-p.stop:
			if shown {
				fmt.Fprint(w, "\r\x1b[K")
			}
			return
		case now := <-tick.C:
			if took := now.Sub(began); took >= progressAfter {
				shown = true
				fmt.Fprintf(w, "\r\x1b[K%s", progressLine(t.read.Load(), t.size, took))
			}
		}
	}
}

// progressLine says what was read of how much, and how long the rest will
// take at this pace; size 0 is not known.
func progressLine(read, size int64, took time.Duration) string {
	const mega = 1e6
	pace := float64(read) / took.Seconds()
	if size == 0 || read > size {
		return fmt.Sprintf("read %.0f MB, %.0f MB/s", float64(read)/mega, pace/mega)
	}
	const cells = 24
	full := int(cells * read / size)
	bar := make([]byte, cells)
	for i := range bar {
		bar[i] = '.'
		if i < full {
			bar[i] = '#'
		}
	}
	line := fmt.Sprintf("[%s] %3d%% of %.0f MB", bar, 100*read/size, float64(size)/mega)
	if pace > 0 {
		left := time.Duration(float64(size-read) / pace * float64(time.Second))
		line += fmt.Sprintf(", %s left", left.Round(time.Second))
	}
	return line
}
