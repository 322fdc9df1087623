package evidence

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kvwitness/kvwitness/sidecar/finding"
)

func openStore(t testing.TB, cfg Config) *Store {
	t.Helper()
	s, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func incident(id string, k finding.Kind) Incident {
	return Incident{ID: id, Kind: k, Severity: k.Severity(), Name: "room " + id, Inst: "d", Findings: 1, Wakes: true, Open: k.Severity() == finding.Critical}
}

func put(t testing.TB, s *Store, i Incident, body string) Link {
	t.Helper()
	l, err := s.Put(i, []byte(body))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// noise is JSON that does not pack well.
func noise(rng *rand.Rand, bytes int) string {
	b := make([]byte, bytes)
	for i := range b {
		b[i] = "abcdefghijklmnopqrstuvwxyz012345"[rng.IntN(32)]
	}
	return `{"part":"opened","noise":"` + string(b) + `"}`
}

func TestWhatWasPutIsThereAndVerifiesAfterARestart(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, Config{Dir: dir})
	first := put(t, s, incident("a", finding.StaleRead), `{"n":1}`)
	put(t, s, incident("b", finding.Blind), `{"n":2}`)
	put(t, s, incident("a", finding.StaleRead), `{"n":3}`)
	if _, err := Open(Config{Dir: dir}); !errors.Is(err, ErrInUse) {
		t.Errorf("opened twice: %v", err)
	}
	head := s.Head()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = openStore(t, Config{Dir: dir})
	all, err := s.Entries("a")
	if err != nil || len(all) != 2 || string(all[0].Body) != `{"n":1}` || string(all[1].Body) != `{"n":3}` {
		t.Errorf("%+v, %v", all, err)
	}
	i, err := s.Incident("a")
	if err != nil || i.Head != first.Hash || len(i.Entries) != 2 || s.Head() != head || s.Stats().Aside != "" {
		t.Errorf("%+v, %v", i, err)
	}
	if list := s.List(); len(list) != 2 || list[0].ID != "b" {
		t.Errorf("%+v", list)
	}
	if err := s.Verify(); err != nil {
		t.Error(err)
	}
	if _, err := s.Entries("c"); !errors.Is(err, ErrNotFound) {
		t.Errorf("%v", err)
	}
}

func TestADisclosureIsOpenUntilSomebodyClosesIt(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, Config{Dir: dir})
	put(t, s, incident("a", finding.StaleRead), `{}`)
	put(t, s, incident("b", finding.Blind), `{}`)
	if s.Stats().Open != 1 {
		t.Fatalf("%+v", s.Stats())
	}
	for _, who := range [][2]string{{"", "why"}, {"me", ""}, {"me", strings.Repeat("x", maxWords+1)}} {
		if _, err := s.Shut("a", who[0], who[1]); err == nil {
			t.Errorf("closed by %.10q for %.10q", who[0], who[1])
		}
	}
	if i, err := s.Shut("a", "me", "told the tenant"); err != nil || i.Open || len(i.Entries) != 2 {
		t.Errorf("%+v, %v", i, err)
	}
	_ = s.Close()
	if s = openStore(t, Config{Dir: dir}); s.Stats().Open != 0 {
		t.Error("it is open again after a restart")
	}
}

// Promise: a flood of cheap findings leaves those of other kinds, and the first ones
// of its own, where they are, and the file within its bound.
func TestCheapFindingsPushOutNoOther(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	s := openStore(t, Config{Dir: t.TempDir(), Bytes: MinBytes})
	s.db.NoSync = true
	put(t, s, incident("dear", finding.StaleRead), noise(rng, 20_000))
	for n := range 80 {
		put(t, s, incident(fmt.Sprint(n), finding.Blind), noise(rng, 20_000))
	}
	if _, err := s.Entries("dear"); err != nil {
		t.Errorf("the one that matters is gone: %v", err)
	}
	for _, id := range []string{"0", "1", "78", "79"} {
		if _, err := s.Entries(id); err != nil {
			t.Errorf("%s is gone: %v", id, err)
		}
	}
	if _, err := s.Incident("40"); !errors.Is(err, ErrNotFound) {
		t.Errorf("nothing was pruned: %v", err)
	}
	info, err := os.Stat(filepath.Join(s.cfg.Dir, fileName))
	if err != nil || info.Size() > MinBytes || s.Stats().Bytes > MinBytes/2 {
		t.Errorf("%d bytes of file, %d of entries, %v", info.Size(), s.Stats().Bytes, err)
	}
	if err := s.Verify(); err != nil {
		t.Error(err)
	}
}

func TestOfOneKindSoManyAreKept(t *testing.T) {
	s := openStore(t, Config{Dir: t.TempDir()})
	s.db.NoSync = true // 300 fsyncs show nothing here
	for n := range MaxPerKind + 44 {
		put(t, s, incident(fmt.Sprint(n), finding.Blind), `{}`)
	}
	if n := len(s.List()); n != MaxPerKind {
		t.Errorf("%d", n)
	}
	for n, there := range map[int]bool{0: true, First - 1: true, First: false, First + 43: false, First + 44: true, MaxPerKind + 43: true} {
		if _, err := s.Incident(fmt.Sprint(n)); (err == nil) != there {
			t.Errorf("incident %d: %v", n, err)
		}
	}
	if err := s.Verify(); err != nil {
		t.Error(err)
	}
}

// Promise: a clock that jumps makes nothing old, time that passed does.
func TestAgeIsTimeThatPassedAndNotWhatAClockSays(t *testing.T) {
	dir, wall := t.TempDir(), time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	cfg := Config{Dir: dir, Age: 72 * time.Hour, Wall: func() time.Time { return wall }}
	s := openStore(t, cfg)
	put(t, s, incident("a", finding.StaleRead), `{}`)
	for n, jump := range []time.Duration{10 * 365 * 24 * time.Hour, -20 * 365 * 24 * time.Hour, 5 * 365 * 24 * time.Hour} {
		wall = wall.Add(jump)
		put(t, s, incident(fmt.Sprint(n), finding.Blind), `{}`)
		_ = s.Close()
		s = openStore(t, cfg)
		if err := s.Verify(); err != nil {
			t.Error(err)
		}
		if _, err := s.Incident("a"); err != nil {
			t.Errorf("after a jump by %s: %v", jump, err)
		}
	}
	for range 4 { // a day each, and it is seen to pass
		wall = wall.Add(24 * time.Hour)
		_ = s.Close()
		s = openStore(t, cfg)
		put(t, s, incident("new", finding.Blind), `{}`)
	}
	if _, err := s.Incident("a"); !errors.Is(err, ErrNotFound) {
		t.Errorf("it outlives its age: %v", err)
	}
}

// Promise: a store whose newer head is damaged, so that the older one shows all but
// the last entry, is not taken for whole.
func TestAStoreWithoutItsLastEntryIsSetAside(t *testing.T) {
	for head := range 2 {
		dir := t.TempDir()
		s := openStore(t, Config{Dir: dir})
		for n := range 3 {
			put(t, s, incident(fmt.Sprint(n), finding.StaleRead), `{}`)
		}
		_ = s.Close()
		path := filepath.Join(dir, fileName)
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		page := int(binary.NativeEndian.Uint32(text[headAt+headPageSize:]))
		clear(text[head*page : head*page+page])
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		s, err = Open(Config{Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		if s.Stats().Aside == "" {
			t.Errorf("without head %d: %d incidents, and nothing is said", head, len(s.List()))
		}
		_ = s.Close()
	}
}

// Promise: whatever bytes of the file are damaged, it is opened whole or set aside
// whole, and said; and a new one takes what comes.
func TestADamagedStoreIsSetAside(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	origin := t.TempDir()
	s := openStore(t, Config{Dir: origin})
	for n := range 20 {
		put(t, s, incident(fmt.Sprint(n), finding.Kind(n%int(finding.NumKind))), noise(rng, 3000))
	}
	_ = s.Close()
	whole, err := os.ReadFile(filepath.Join(origin, fileName))
	if err != nil {
		t.Fatal(err)
	}
	aside := 0
	for round := range 40 {
		damaged := bytes.Clone(whole)
		switch round % 4 {
		case 0:
			damaged = damaged[:rng.IntN(len(damaged))]
		case 1:
			at := rng.IntN(len(damaged) / 4096)
			clear(damaged[at*4096 : at*4096+4096])
		default:
			for range 1 + rng.IntN(50) {
				damaged[rng.IntN(len(damaged))] ^= byte(1 << rng.IntN(8))
			}
		}
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, fileName), damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := Open(Config{Dir: dir})
		if err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		if at := s.Stats().Aside; at == "" {
			if len(s.List()) != 20 {
				t.Errorf("round %d: %d incidents, and nothing is said", round, len(s.List()))
			}
		} else {
			aside++
			if kept, err := os.ReadFile(at); err != nil || !bytes.Equal(kept, damaged) {
				t.Errorf("round %d: what was set aside is not what was there: %v", round, err)
			}
		}
		put(t, s, incident("after", finding.StaleRead), `{}`)
		if err := s.Verify(); err != nil {
			t.Errorf("round %d: %v", round, err)
		}
		_ = s.Close()
	}
	if aside < 10 {
		t.Errorf("only %d of 40 were set aside", aside)
	}
}
