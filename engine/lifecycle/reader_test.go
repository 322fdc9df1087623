package lifecycle

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
)

const closed = `{"t":%d,"inst":"i","src":"engine","ev":"pool_closed","pool":"kv"}`

// tracer is what both readers are.
type tracer interface {
	Next() (*Fact, error)
	Header() Header
}

// bothReaders runs a promise that Reader and ParallelReader share.
func bothReaders(t *testing.T, promise func(t *testing.T, open func(in io.Reader) tracer)) {
	t.Helper()
	t.Run("Reader", func(t *testing.T) {
		promise(t, func(in io.Reader) tracer { return NewReader(in, "a.jsonl") })
	})
	t.Run("ParallelReader", func(t *testing.T) {
		promise(t, func(in io.Reader) tracer {
			r := NewParallelReader(in, "a.jsonl", 3)
			t.Cleanup(r.Close)
			return r
		})
	})
}

// drain counts facts until the trace ends, by io.EOF or by damage.
func drain(r tracer) (facts int, err error) {
	for {
		if _, err = r.Next(); err != nil {
			return facts, err
		}
		facts++
	}
}

func numbered(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, closed+"\n", i)
	}
	return b.String()
}

func TestFactsComeInTheOrderOfTheTrace(t *testing.T) {
	const facts = 20000 // 30 blocks
	bothReaders(t, func(t *testing.T, open func(io.Reader) tracer) {
		r := open(strings.NewReader(numbered(facts)))
		for i := range int64(facts) {
			if f, err := r.Next(); err != nil || f.T != i {
				t.Fatalf("fact %d: %+v, %v", i, f, err)
			}
		}
		for range 2 {
			if _, err := r.Next(); err != io.EOF {
				t.Fatalf("after the last fact: %v", err)
			}
		}
	})
}

func TestHoweverTheSourceIsCutTheFactsAreTheSame(t *testing.T) {
	trace := "\n \r\n" + `{"ev":"trace","version":1,"node":"n7"}` + "\r\n" + numbered(300) + "\n\n" + fmt.Sprintf(closed, 300)
	bothReaders(t, func(t *testing.T, open func(io.Reader) tracer) {
		for name, in := range map[string]io.Reader{
			"whole":    strings.NewReader(trace),
			"bytes":    iotest.OneByteReader(strings.NewReader(trace)),
			"halves":   iotest.HalfReader(strings.NewReader(trace)),
			"data+EOF": iotest.DataErrReader(strings.NewReader(trace)),
		} {
			r := open(in)
			f, err := r.Next()
			if err != nil || f.Node != "n7" || r.Header().Node != "n7" {
				t.Fatalf("%s: the header's node is not the fact's: %+v, %v", name, f, err)
			}
			if n, err := drain(r); n != 300 || err != io.EOF {
				t.Errorf("%s: %d more facts, %v", name, n, err)
			}
		}
	})
}

// damaged traces: what they hold, how many facts come before the damage, on
// which line it is, and what is said.
var damaged = []struct {
	name, trace string
	facts, line int
	why         error
	says        string
}{
	{"empty", "", 0, 1, ErrNoFacts, "no evidence"},
	{"blank", "\n\n  \n", 0, 3, ErrNoFacts, "no evidence"},
	{"only a header", `{"ev":"trace","version":1}` + "\n", 0, 1, ErrNoFacts, "no evidence"},
	{"a later version", `{"ev":"trace","version":2}` + "\n" + numbered(1), 0, 1, ErrHeader, "version 2"},
	{"a version that is none", "\n" + `{"ev":"trace","version":"x"}` + "\n" + numbered(1), 0, 2, ErrHeader, "header"},
	{"a second header", numbered(3) + `{"ev":"trace","version":1}` + "\n" + numbered(1), 3, 4, ErrHeader, "files of their own"},
	{"binary", "\x7fELF\x02\x01\x01\x00\x00\n\x00", 0, 1, ErrFact, "not JSON"},
	{"damaged in the middle", numbered(700) + "\n{\"t\":\n" + numbered(9), 700, 702, ErrFact, "too early"},
	{"truncated", numbered(2) + `{"t":3,"inst":"i","sr`, 2, 3, ErrFact, "too early"},
	{"a line too long", numbered(5) + strings.Repeat(" ", 3*MaxLine), 5, 6, ErrTooLong, "longer than"},
	{"a fact too long", numbered(5) + `{"t":1` + strings.Repeat(" ", MaxLine) + "}\n", 5, 6, ErrFact, "at most"},
}

func TestDamageIsNamedByFileAndLineAfterWhatCameBefore(t *testing.T) {
	bothReaders(t, func(t *testing.T, open func(io.Reader) tracer) {
		for _, c := range damaged {
			r := open(strings.NewReader(c.trace))
			facts, err := drain(r)
			var at *LineError
			if !errors.As(err, &at) || at.File != "a.jsonl" || at.Line != c.line || !errors.Is(err, c.why) {
				t.Errorf("%s: %v, want line %d, %v", c.name, err, c.line, c.why)
			} else if !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s: %q does not say %q", c.name, err, c.says)
			}
			if facts != c.facts {
				t.Errorf("%s: %d facts before the damage, want %d", c.name, facts, c.facts)
			}
			if _, again := r.Next(); !errors.Is(again, err) {
				t.Errorf("%s: then %v", c.name, again)
			}
		}
	})
}

func TestASourceThatFailsIsNamedByTheLineItFailedOn(t *testing.T) {
	gone := errors.New("the disk is gone")
	bothReaders(t, func(t *testing.T, open func(io.Reader) tracer) {
		facts, err := drain(open(io.MultiReader(strings.NewReader(numbered(3)+`{"t"`), iotest.ErrReader(gone))))
		var at *LineError
		if facts != 3 || !errors.Is(err, gone) || !errors.As(err, &at) || at.Line != 4 {
			t.Errorf("%d facts, %v", facts, err)
		}
	})
}

type silent struct{}

func (silent) Read([]byte) (int, error) { return 0, nil }

func TestASourceThatSaysNothingEndsTheTrace(t *testing.T) {
	bothReaders(t, func(t *testing.T, open func(io.Reader) tracer) {
		if _, err := drain(open(silent{})); !errors.Is(err, io.ErrNoProgress) {
			t.Errorf("got %v", err)
		}
	})
}

// endless is a line without an end.
type endless struct{ read int }

func (e *endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	e.read += len(p)
	return len(p), nil
}

func TestALineWithoutAnEndIsGivenUpSoon(t *testing.T) {
	bothReaders(t, func(t *testing.T, open func(io.Reader) tracer) {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		in := new(endless)
		_, err := drain(open(in))
		runtime.ReadMemStats(&after)
		if !errors.Is(err, ErrTooLong) || in.read > 3*MaxLine {
			t.Errorf("%v after %d bytes", err, in.read)
		}
		if took := after.TotalAlloc - before.TotalAlloc; took > 8*MaxLine {
			t.Errorf("it took %d bytes of memory", took)
		}
	})
}

func TestAWrittenTraceIsReadAsItWas(t *testing.T) {
	r := seeded(t)
	var facts []*Fact
	for range 2000 {
		facts = append(facts, randomFact(r, 1+Ev(r.IntN(int(numEv)-1))))
	}
	path := filepath.Join(t.TempDir(), "a.jsonl")
	header := Header{Node: "n1", Boot: "b", Wall: "2026-09-09T13:22:00Z", DomainKey: "k1"}
	writeTrace(t, path, header, facts)
	trace, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	bothReaders(t, func(t *testing.T, open func(io.Reader) tracer) {
		in := open(bytes.NewReader(trace))
		for i, want := range facts {
			if got, err := in.Next(); err != nil || !reflect.DeepEqual(got, want) {
				t.Fatalf("fact %d: %v\n got %+v\nwant %+v", i, err, got, want)
			}
		}
		want := header
		want.Ev, want.Version = "trace", 1
		if in.Header() != want {
			t.Errorf("header %+v", in.Header())
		}
	})
}

func writeTrace(t *testing.T, path string, header Header, facts []*Fact) {
	t.Helper()
	out, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	w, err := NewWriter(out, header)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range facts {
		if err := w.Write(f); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
}

func TestAParallelReaderThatIsClosedEarlyLeavesNothingRunning(t *testing.T) {
	before := runtime.NumGoroutine()
	trace := numbered(20000)
	for range 20 {
		r := NewParallelReader(strings.NewReader(trace), "a.jsonl", 4)
		if _, err := r.Next(); err != nil {
			t.Fatal(err)
		}
		r.Close()
		r.Close()
	}
	for i := 0; runtime.NumGoroutine() > before; i++ {
		if i == 1_000_000 {
			t.Fatalf("%d goroutines, %d before", runtime.NumGoroutine(), before)
		}
		runtime.Gosched()
	}
}
