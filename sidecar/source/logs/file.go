package logs

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"time"
)

const (
	// MaxLine is the longest line that is read.
	MaxLine = 16 << 10
	// MaxPast is how much of the beginning of a log is read that was there before.
	MaxPast = 8 << 20
	// look is how often a file is looked at for more.
	look = 200 * time.Millisecond
)

// Sink takes what is read of a log, in one goroutine.
type Sink struct {
	// Past is told lines that were there before the log was followed, and Line those
	// that come.
	Past, Line func(string)
	// Forget is called where another run of the engine begins.
	Forget func()
	// Lost is told how many lines could not be read.
	Lost func(lines uint64)
}

// File follows a log under its name. Past are the lines of its beginning; a new file,
// where the log was put aside or begun anew, is another run.
type File struct {
	Path string
	Sink

	file  *os.File
	in    *bufio.Reader
	part  []byte // of a line whose end is still to come
	over  bool   // it is too long already
	where int64
}

// Run follows until ctx ends. A file that cannot be opened is tried again.
func (f *File) Run(ctx context.Context) {
	defer f.close()
	first := true
	for ctx.Err() == nil {
		if f.file == nil && f.open(first) {
			first = false
		}
		if f.file != nil {
			f.read(f.Line)
			if f.another() {
				f.read(f.Line) // what came since, if it was only renamed
				f.close()
				f.Forget()
				continue
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(look):
		}
		if f.file == nil {
			first = false // what appears later is new from its beginning
		}
	}
}

// open opens the file; past: what is in it was there before.
func (f *File) open(past bool) bool {
	file, err := os.Open(f.Path)
	if err != nil {
		return false
	}
	f.file, f.in, f.part, f.over, f.where = file, bufio.NewReaderSize(file, MaxLine), nil, false, 0
	if past {
		f.in = bufio.NewReaderSize(io.LimitReader(file, MaxPast), MaxLine)
		f.read(f.Past)
		end, err := file.Seek(0, io.SeekEnd)
		if err != nil {
			f.close()
			return false
		}
		f.in, f.where, f.part, f.over = bufio.NewReaderSize(file, MaxLine), end, nil, false
	}
	return true
}

func (f *File) close() {
	if f.file != nil {
		_ = f.file.Close() // it was only read
		f.file = nil
	}
}

// read reads whole lines as far as there are some.
func (f *File) read(each func(string)) {
	for {
		piece, err := f.in.ReadSlice('\n')
		f.where += int64(len(piece))
		whole := err == nil
		if f.over = f.over || len(f.part)+len(piece) > MaxLine; !f.over {
			f.part = append(f.part, piece...)
		}
		if whole {
			if f.over {
				f.Lost(1)
			} else {
				each(string(f.part[:len(f.part)-1]))
			}
			f.part, f.over = f.part[:0], false
		}
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return
		}
	}
}

// another reports whether the name is another file's now, or the file was cut short.
func (f *File) another() bool {
	named, err := os.Stat(f.Path)
	if err != nil {
		return false // it may be on its way
	}
	here, err := f.file.Stat()
	return err != nil || !os.SameFile(named, here) || here.Size() < f.where
}
