package replay

import (
	"bufio"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
)

// MaxFiles is how many traces can be merged at once: each is open, with a few
// blocks of it in memory.
const MaxFiles = 256

// Stdin is the name that stands for standard input.
const Stdin = "-"

// source is one trace that is being read.
type source struct {
	name   string
	reader *lifecycle.ParallelReader
	close  func()
}

// Traces are several traces, opened and not yet read.
type Traces struct {
	sources []*source
	merge   *merge
	read    atomic.Int64 // bytes taken from the files, still compressed
	size    int64        // bytes of all files, 0 where one is not a regular file
}

// Open opens the traces. It fails for all if one cannot be opened. Whoever
// opens them calls Close.
func Open(names []string, stdin io.Reader) (*Traces, error) {
	if len(names) > MaxFiles {
		return nil, fmt.Errorf("%d traces, at most %d can be merged at once; join those of one node in order of time", len(names), MaxFiles)
	}
	t := &Traces{}
	workers := max(1, runtime.GOMAXPROCS(0)/max(1, len(names)))
	sized, usedStdin := true, false
	for _, name := range names {
		if name == Stdin && usedStdin {
			t.Close()
			return nil, errors.New("standard input (-) is named twice")
		}
		usedStdin = usedStdin || name == Stdin
		size, err := t.open(name, stdin, workers)
		if err != nil {
			t.Close()
			return nil, err
		}
		t.size += size
		sized = sized && size > 0
	}
	if !sized {
		t.size = 0
	}
	t.merge = newMerge(t.sources)
	return t, nil
}

// Wall is the wall clock of a node at its time at (ns), if the header of its
// trace says how the two stand. It is known from the node's first fact on.
func (t *Traces) Wall(node string, at int64) (time.Time, bool) {
	start, known := t.merge.walls[node]
	return start.Add(time.Duration(at)), known
}

// open adds one trace and returns its size, 0 where that is not known.
func (t *Traces) open(name string, stdin io.Reader, workers int) (size int64, err error) {
	in, closeFile := stdin, func() {}
	if name != Stdin {
		file, err := os.Open(name)
		if err != nil {
			return 0, fmt.Errorf("open the trace: %w", err)
		}
		if info, err := file.Stat(); err == nil && info.Mode().IsRegular() {
			size = info.Size()
		}
		in, closeFile = file, func() { _ = file.Close() } // only read: nothing to lose
	}
	shown := name
	if name == Stdin {
		shown = "standard input"
	}
	plain, err := decompressed(counted{in, &t.read})
	if err != nil {
		closeFile()
		return 0, fmt.Errorf("read the trace %s: %w", shown, err)
	}
	reader := lifecycle.NewParallelReader(plain, shown, workers)
	t.sources = append(t.sources, &source{shown, reader, func() {
		reader.Close()
		closeFile()
	}})
	return size, nil
}

// Close ends all reading.
func (t *Traces) Close() {
	for _, s := range t.sources {
		s.close()
	}
}

// decompressed looks at the first bytes of in and unpacks it if they are those
// of gzip. What it unpacks to is bounded by whoever reads lines of it.
func decompressed(in io.Reader) (io.Reader, error) {
	const magic = "\x1f\x8b"
	buffered := bufio.NewReaderSize(in, 64<<10)
	head, err := buffered.Peek(len(magic))
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if string(head) != magic {
		return buffered, nil
	}
	unpacked, err := gzip.NewReader(buffered)
	if err != nil {
		return nil, fmt.Errorf("gunzip: %w", err)
	}
	return gunzip{unpacked}, nil
}

// gunzip says of an error where it comes from.
type gunzip struct{ in *gzip.Reader }

func (g gunzip) Read(p []byte) (int, error) {
	n, err := g.in.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = fmt.Errorf("gunzip: %w", err)
	}
	return n, err
}

// counted counts the bytes that were read.
type counted struct {
	in   io.Reader
	read *atomic.Int64
}

func (c counted) Read(p []byte) (int, error) {
	n, err := c.in.Read(p)
	c.read.Add(int64(n))
	return n, err
}
