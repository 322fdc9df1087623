package evidence

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/sidecar/finding"
)

// desk is a gatherer with a store, and what it told.
type desk struct {
	*Gatherer
	store *Store
	now   time.Time

	calls atomic.Int64
	mu    sync.Mutex
	told  []Incident
}

func newDesk(t testing.TB, memory int) *desk {
	t.Helper()
	d := &desk{store: openStore(t, Config{Dir: t.TempDir()}), now: time.Now()}
	d.store.db.NoSync = true
	d.Gatherer = NewGatherer(GatherConfig{
		Store: d.store, Memory: memory, Node: "n", Boot: "b", Zero: "z", Version: "v",
		State: func() jsontext.Value { return jsontext.Value(`{"engines":[]}`) },
		Told: func(i *Incident, stored bool) {
			d.calls.Add(1)
			d.mu.Lock()
			defer d.mu.Unlock()
			if stored {
				d.told = append(d.told, *i)
			}
		},
	})
	return d
}

// facts are lines of a trace, about instance d.
func facts(t testing.TB, lines ...string) (all []Seen) {
	t.Helper()
	dec := lifecycle.NewJSONDecoder()
	for n, text := range lines {
		if !strings.Contains(text, `"inst"`) {
			text = `{"inst":"d",` + text[1:]
		}
		f, err := dec.Decode([]byte(fmt.Sprintf(`{"t":%d,"src":"engine",`, n+1) + text[1:]))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, Seen{Fact: f})
	}
	return all
}

func (d *desk) take(all []Seen, later time.Duration) {
	d.now = d.now.Add(later)
	d.Take(all, d.now)
}

// read is the bodies of an incident.
func (d *desk) read(t testing.TB, id string) (all []Body) {
	t.Helper()
	entries, err := d.store.Entries(id)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		var b struct {
			Body
			Map json.RawMessage
		}
		if err := json.Unmarshal(e.Body, &b); err != nil {
			t.Fatalf("%v: %s", err, e.Body)
		}
		all = append(all, b.Body)
	}
	return all
}

func evs(b Body) (all []string) {
	for _, text := range b.Facts {
		var f struct{ Ev, Req string }
		_ = json.Unmarshal(text, &f)
		all = append(all, strings.TrimSpace(f.Ev+" "+f.Req))
	}
	return all
}

func stale(req, room string, pages ...lifecycle.Run) *finding.Finding {
	return &finding.Finding{Kind: finding.StaleRead, T: 5, Node: "n", Inst: "d", Req: req, Room: room, Pool: "kv", Pages: pages, Claim: "c", Observation: "o"}
}

// Promise: an incident has the facts of its request and of its pages, before and
// after, and no others.
func TestAnIncidentHasItsFactsBeforeAndAfter(t *testing.T) {
	d := newDesk(t, 1<<20)
	before := facts(t,
		`{"ev":"pool_opened","pool":"kv","pages":64,"page_tokens":16,"regions":[{"base":4096,"stride":100,"bytes":100}],"pids":[`+fmt.Sprint(os.Getpid())+`,999999999]}`,
		`{"ev":"pages_reserved","req":"earlier","pool":"kv","pages":[[8,2]]}`,
		`{"ev":"pages_reserved","req":"other","pool":"kv","pages":[[20,2]]}`,
		`{"ev":"request_admitted","req":"r","room":"7"}`,
		`{"inst":"p","ev":"request_admitted","req":"p1","room":"7"}`,
		`{"ev":"transfer_started","xfer":"x","room":"7","side":"receiver","pool":"kv","pages":[[8,2]],"peer":"p"}`,
		`{"ev":"bytes_moved","addr":9999999,"bytes":1,"xfer":"x"}`,
		`{"ev":"bytes_moved","addr":4896,"bytes":10}`,
		`{"ev":"bytes_moved","addr":9000,"bytes":10}`,
		`{"inst":"p","ev":"pages_read","req":"p1","pool":"kv","pages":[[3,1]]}`,
		`{"ev":"pages_read","req":"other","pool":"kv","pages":[[20,2]]}`,
		`{"ev":"stream_gap","of":"engine","from":1,"to":2}`,
	)
	m := &Map{Inst: "d", Pool: "kv", Pages: 64, States: []string{"free"}, Runs: [][2]int{{0, 64}}}
	d.take(append(before, Seen{Finding: stale("r", "7", lifecycle.Run{First: 8, Count: 1}), Map: m}), 0)
	d.take(facts(t, `{"ev":"pages_read","req":"r","pool":"kv","pages":[[8,1]]}`, `{"ev":"pages_read","req":"other","pool":"kv","pages":[[21,1]]}`), 10*time.Millisecond)
	d.take(nil, 2*Hold)
	d.Close(time.Minute)
	all := d.store.List()
	if len(all) != 1 || !all[0].Open || !all[0].Wakes || all[0].Name != "room 7" {
		t.Fatalf("%+v", all)
	}
	parts := d.read(t, all[0].ID)
	if len(parts) != 2 || parts[0].Part != "opened" || parts[1].Part != "completed" {
		t.Fatalf("%d parts", len(parts))
	}
	want := []string{
		"pool_opened", "pages_reserved earlier", "request_admitted r", "request_admitted p1", "transfer_started", "bytes_moved", "bytes_moved",
		"pages_read p1", "stream_gap",
	}
	if got := evs(parts[0]); !slices.Equal(got, want) {
		t.Errorf("before: %q", got)
	}
	if got := evs(parts[1]); !slices.Equal(got, []string{"pages_read r"}) {
		t.Errorf("after: %q", got)
	}
	b := parts[0]
	if len(b.Findings) != 1 || b.Map == nil || b.Node != "n" || b.Versions.Witness != "v" || b.Versions.Kernel == "" || string(b.Engines) != `{"engines":[]}` {
		t.Errorf("%+v", b)
	}
	if len(b.Process) != 2 || !strings.Contains(b.Process[0].Exe, "evidence") || b.Process[1].Problem == "" {
		t.Errorf("%+v", b.Process)
	}
	if len(d.told) != 2 || d.told[0].Head != all[0].Head || all[0].Head == "" {
		t.Errorf("told %+v", d.told)
	}
}

// Promise: what wakes nobody is recorded, and is no open disclosure.
func TestShadowAndWarmUpAreRecordedAndNotOpen(t *testing.T) {
	d := newDesk(t, 1<<20)
	warm := stale("w", "1")
	warm.Synthetic = true
	d.take([]Seen{{Finding: warm}, {Finding: stale("s", "2"), Shadow: true}, {Finding: &finding.Finding{Kind: finding.Blind, Severity: finding.Warning, Inst: "d"}}}, 0)
	d.Close(time.Minute)
	if all := d.store.List(); len(all) != 3 || d.store.Stats().Open != 0 {
		t.Errorf("%+v", all)
	}
	if len(d.told) != 2 || d.told[0].Kind != finding.Blind || d.told[1].Kind != finding.Blind { // opened, and completed
		t.Errorf("told of %+v", d.told)
	}
}

// Promise: a storm is recorded as far as it may be, the rest is counted and told, and
// memory does not grow with it.
func TestAStormIsBoundedAndCounted(t *testing.T) {
	const rounds, each = 20, 1000
	d := newDesk(t, 4<<20)
	var start, end runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&start)
	line := facts(t, `{"ev":"pages_read","req":"r","pool":"kv","pages":[[8,1]]}`)[0]
	for round := range rounds { // two seconds of 10,000 findings each
		var all []Seen
		for n := range each {
			f := *line.Fact
			all = append(all, Seen{Fact: &f}, Seen{Finding: stale(fmt.Sprint(round, n), fmt.Sprint(round*each+n), lifecycle.Run{First: 8, Count: 1})})
		}
		d.take(all, 100*time.Millisecond)
	}
	runtime.GC()
	runtime.ReadMemStats(&end)
	if grown := int64(end.HeapAlloc) - int64(start.HeapAlloc); grown > 64<<20 {
		t.Errorf("memory grew by %d bytes", grown)
	}
	d.Close(time.Minute)
	s := d.Stats()
	kept := len(d.store.List())
	if kept < Burst || kept > Burst+rounds/10+2 || s.Skipped != uint64(rounds*each-kept) || s.Lost != 0 {
		t.Errorf("%d kept, %+v", kept, s)
	}
	if n := d.calls.Load(); n < rounds*each {
		t.Errorf("told of %d", n)
	}
}

func TestOneIncidentOfManyFactsIsBounded(t *testing.T) {
	d := newDesk(t, 64<<20)
	var all []Seen
	for n := range 3 * MaxFacts {
		all = append(all, facts(t, fmt.Sprintf(`{"ev":"pages_read","req":"r","step":%d,"pool":"kv","pages":[[8,1]]}`, n))...)
	}
	for range 2 * MaxFindings {
		all = append(all, Seen{Finding: stale("r", "", lifecycle.Run{First: 8, Count: 1})})
	}
	d.take(all, 0)
	d.Close(time.Minute)
	b := d.read(t, d.store.List()[0].ID)[0]
	if len(b.Facts) != MaxFacts || b.Left != 2*MaxFacts || len(b.Findings) != MaxFindings || b.More != MaxFindings {
		t.Errorf("%d facts and %d more, %d findings and %d more", len(b.Facts), b.Left, len(b.Findings), b.More)
	}
	if !strings.Contains(string(b.Facts[0]), `"step":0`) || !strings.Contains(string(b.Facts[MaxFacts-1]), fmt.Sprintf(`"step":%d`, 3*MaxFacts-1)) {
		t.Error("the first and the last ones are not there")
	}
}

// Promise: reads do not push out what tells the life of a request.
func TestRememberedFactsAreBoundedInBytes(t *testing.T) {
	m := newMemory(1 << 20)
	for _, s := range facts(t, `{"ev":"request_admitted","req":"r"}`) {
		m.add(s.Fact)
	}
	read := facts(t, `{"ev":"pages_read","req":"r","pool":"kv","pages":[[8,1]]}`)[0].Fact
	for range 100_000 {
		m.add(read)
	}
	if m.life.bytes+m.bulk.bytes > 1<<20 || cap(m.bulk.all) > 16_000 {
		t.Errorf("%d bytes, room for %d", m.life.bytes+m.bulk.bytes, cap(m.bulk.all))
	}
	n, first := 0, lifecycle.EvUnknown
	m.since(0, func(f *lifecycle.Fact) {
		if n == 0 {
			first = f.Ev
		}
		n++
	})
	if first != lifecycle.RequestAdmitted || n < 300 {
		t.Errorf("%d facts, the first is %s", n, first)
	}
}

func TestAProcessIsToldByItsLibraries(t *testing.T) {
	root := t.TempDir()
	dir := filepath.Join(root, "proc/7")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/usr/bin/engine", filepath.Join(dir, "exe")); err != nil {
		t.Fatal(err)
	}
	maps := "7f00-7f01 r-xp 00000000 08:01 1 /usr/lib/libibverbs.so.1.14\n7f01-7f02 r--p 00000000 08:01 1 /usr/lib/libibverbs.so.1.14\n" +
		"7f02-7f03 r-xp 00000000 08:01 2 /usr/lib/libc.so.6\n7f03-7f04 rw-p 00000000 00:00 0\n"
	if err := os.WriteFile(filepath.Join(dir, "maps"), []byte(maps), 0o600); err != nil {
		t.Fatal(err)
	}
	p := process(root, 7)
	if p.Exe != "/usr/bin/engine" || !slices.Equal(p.Libraries, []string{"/usr/lib/libibverbs.so.1.14"}) || p.Problem != "" {
		t.Errorf("%+v", p)
	}
}

// BenchmarkTake is what a fact costs beside the judge.
func BenchmarkTake(b *testing.B) {
	d := newDesk(b, 32<<20)
	defer d.Close(time.Minute)
	read := facts(b, `{"ev":"pages_read","req":"r","pool":"kv","pages":[[8,1]]}`)[0]
	b.ReportAllocs()
	for b.Loop() {
		d.Gatherer.fact(read.Fact)
	}
}
