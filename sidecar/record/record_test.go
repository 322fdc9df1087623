package record

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
)

func newRecorder(t testing.TB, bytes, files int) *Recorder {
	t.Helper()
	r, err := New(Config{Path: filepath.Join(t.TempDir(), "trace.jsonl"), Bytes: bytes, Files: files, Header: lifecycle.Header{Node: "n"}})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func fact(at int64) *lifecycle.Fact {
	return &lifecycle.Fact{T: at, Inst: "i", Node: "n", Src: lifecycle.Engine, Ev: lifecycle.PeerGone, Peer: "p"}
}

func read(t testing.TB, path string) (all []*lifecycle.Fact) {
	t.Helper()
	in, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	for r := lifecycle.NewReader(in, path); ; {
		f, err := r.Next()
		if errors.Is(err, io.EOF) || errors.Is(err, lifecycle.ErrNoFacts) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, f)
	}
}

func TestWhatWasRecordedIsATrace(t *testing.T) {
	r := newRecorder(t, 1<<20, 2)
	for i := range int64(100) {
		r.Fact(fact(i))
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	for i, f := range read(t, r.cfg.Path) {
		if f.T != int64(i) || f.Peer != "p" {
			t.Fatalf("%d: %+v", i, f)
		}
	}
	if st := r.Stats(); st.Written != 100 || st.Lost != 0 {
		t.Errorf("%+v", st)
	}
}

func TestFilesAreBoundedInSizeAndNumber(t *testing.T) {
	r := newRecorder(t, 2000, 3)
	for i := range int64(400) {
		r.Fact(fact(i))
		if i%20 == 0 {
			r.poke()
			for r.waiting.Load() > 0 {
				time.Sleep(time.Millisecond)
			}
		}
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	kept, err := filepath.Glob(r.cfg.Path + "*")
	if err != nil || len(kept) != 3 || r.Stats().Rotated < 3 {
		t.Fatalf("%v, %v, %+v", kept, err, r.Stats())
	}
	last := int64(-1)
	for _, name := range []string{r.cfg.Path + ".2", r.cfg.Path + ".1", r.cfg.Path} {
		for _, f := range read(t, name) {
			if last >= 0 && f.T != last+1 {
				t.Fatalf("%s: %d after %d", name, f.T, last)
			}
			last = f.T
		}
	}
	if last != 399 {
		t.Errorf("the last fact is %d", last)
	}
}

func TestATraceThatIsThereIsPutAside(t *testing.T) {
	r := newRecorder(t, 1<<20, 2)
	r.Fact(fact(1))
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := New(r.cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}
	if len(read(t, r.cfg.Path+".1")) != 1 || len(read(t, r.cfg.Path)) != 0 {
		t.Error("the older trace is not where it should be")
	}
}

// A disk that takes nothing costs the judge no time, and the trace says what is
// missing from it.
func TestADiskThatIsTooSlowLosesFactsAndSaysSo(t *testing.T) {
	long := fact(0)
	long.Ev, long.Reason, long.Peer, long.Req = lifecycle.RequestAborted, strings.Repeat("x", 1000), "", "1"
	stuck, err := prepare(Config{Path: filepath.Join(t.TempDir(), "t"), Bytes: 1 << 30, Files: 2})
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for ; stuck.Stats().Lost < 10; n++ {
		stuck.Fact(long)
	}
	if w := stuck.Stats().Waiting; w > QueueBytes+lifecycle.MaxLine {
		t.Errorf("%d bytes wait", w)
	}
	go stuck.run()
	stuck.poke()
	for stuck.Stats().Waiting > 0 {
		time.Sleep(time.Millisecond)
	}
	stuck.Fact(fact(7))
	if err := stuck.Close(); err != nil {
		t.Fatal(err)
	}
	all := read(t, stuck.cfg.Path)
	lost := all[len(all)-2]
	if lost.Ev != lifecycle.EventsLost || lost.Count != 10 || lost.Stage != "record" || len(all) != n-10+2 {
		t.Errorf("%d facts of %d, the last but one %+v", len(all), n, lost)
	}
}

func TestAFolderThatIsNotThereIsAnError(t *testing.T) {
	_, err := New(Config{Path: filepath.Join(t.TempDir(), "gone", "t"), Bytes: 1, Files: 1})
	if !errors.Is(err, os.ErrNotExist) {
		t.Error(fmt.Sprint(err))
	}
}
