package publish

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/engine/scheduler"
)

func readTrace(t testing.TB, path string) (facts []*lifecycle.Fact) {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	r := lifecycle.NewReader(file, path)
	for {
		f, err := r.Next()
		if err == io.EOF {
			return facts
		}
		if err != nil {
			t.Fatal(err)
		}
		facts = append(facts, f)
	}
}

// A trace says what the engine did, whole: read together its files are one story
// without a fault, and so is each of them alone, as far back as it goes.
func TestATraceIsWholeAndEachOfItsFilesCanBeJudgedAlone(t *testing.T) {
	dir := t.TempDir()
	w := newWorld(t, 11)
	var rec *Recorder
	w.tells = func(e *engine) *Teller {
		var err error
		rec, err = NewRecorder(Identity{Instance: e.name, Epoch: e.epoch, Now: func() int64 { return 1 }}, RecordConfig{
			Path: filepath.Join(dir, "trace.jsonl"), MaxBytes: 200_000, MaxFiles: 3, Header: lifecycle.Header{Node: "n1"},
		})
		if err != nil {
			t.Fatal(err)
		}
		return rec.Teller
	}
	w.populate([]scheduler.Role{scheduler.Unified})
	for i := range 12_000 {
		w.chance(false)
		if i%500 == 0 {
			time.Sleep(2 * linger)
		}
	}
	w.rest()
	if err := rec.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s := rec.Stats(); s.Lost+s.NotRecorded > 0 || s.Recorded < 3000 {
		t.Fatalf("%+v", s)
	}
	names, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(names) != 3 {
		t.Fatalf("files %v, want the last 3: %v", names, err)
	}
	slices.SortFunc(names, func(a, b string) int { return number(t, a) - number(t, b) })
	all := newCourt(t)
	for _, name := range names {
		if info, err := os.Stat(name); err != nil || info.Size() > 400_000 || info.Mode().Perm() != 0o600 {
			t.Fatalf("%s: %v, %v", name, info, err)
		}
		one := newCourt(t)
		for _, f := range readTrace(t, name) {
			one.hear(f)
			all.hear(f)
		}
		one.close()
		one.mustBeSilent(name)
		if s := one.l.Stats(); s.NoPool > 0 {
			t.Fatalf("%s alone: %d facts about pools that were never opened", name, s.NoPool)
		}
	}
	all.close()
	all.mustBeSilent("all files")
}

func number(t testing.TB, name string) (n int) {
	parts := strings.Split(filepath.Base(name), ".")
	if len(parts) == 3 {
		if _, err := fmt.Sscan(parts[1], &n); err != nil {
			t.Fatal(err)
		}
	}
	return n
}

// What was recorded before is evidence: it is not written over.
func TestARecordingDoesNotOverwrite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "trace.jsonl")
	if err := os.WriteFile(path, []byte("evidence"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := NewRecorder(testIdentity("e", 1), RecordConfig{Path: path}); !errors.Is(err, fs.ErrExist) {
		t.Fatalf("recording over a file: %v", err)
	}
	if b, err := os.ReadFile(path); err != nil || string(b) != "evidence" {
		t.Fatalf("%q, %v", b, err)
	}
}

// A disk that takes nothing costs the engine nothing, is said at the end, and what
// is missing is counted.
func TestAFullDiskCostsTheEngineNothing(t *testing.T) {
	rec, err := NewRecorder(testIdentity("e", 1), RecordConfig{Path: filepath.Join(t.TempDir(), "t.jsonl")})
	if err != nil {
		t.Fatal(err)
	}
	pool, err := rec.PoolEvents("kv", lifecycle.PoolSpec{Pages: 16, PageTokens: 16})
	if err != nil {
		t.Fatal(err)
	}
	settleQueue(t, rec.q)
	if !rec.loop.ask(func() { _ = rec.file.file.Close() }, nil) { // as a device that is gone
		t.Fatal("the recorder has ended")
	}
	for range 100 {
		pool.Audited(at0, audit0)
		time.Sleep(100 * time.Microsecond)
	}
	settleQueue(t, rec.q)
	if err := rec.Close(t.Context()); !errors.Is(err, os.ErrClosed) {
		t.Fatalf("the trace has a hole, and the end says %v", err)
	}
	if s := rec.Stats(); s.Lost != 0 || s.RecordErrors == 0 || s.NotRecorded == 0 {
		t.Fatalf("%+v", s)
	}
}
