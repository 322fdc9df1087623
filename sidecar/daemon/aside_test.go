package daemon

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/sidecar/alert"
	"github.com/kvwitness/kvwitness/sidecar/evidence"
	"github.com/kvwitness/kvwitness/sidecar/finding"
	"github.com/kvwitness/kvwitness/sidecar/ledger"
	"github.com/kvwitness/kvwitness/sidecar/web"
)

// besides is an aside whose goroutine does not run, and its store.
func besides(t *testing.T) (*aside, *evidence.Store) {
	t.Helper()
	store, err := evidence.Open(evidence.Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	gather := evidence.NewGatherer(evidence.GatherConfig{
		Store: store, Memory: 1 << 20, State: func() jsontext.Value { return jsontext.Value("{}") }, Told: func(*evidence.Incident, bool) {},
	})
	t.Cleanup(func() { gather.Close(time.Minute) })
	return &aside{gather: gather, flow: web.NewFlow(), wake: make(chan struct{}, 1), maps: mapsBurst, mapsAt: time.Now()}, store
}

func read(req string) seen {
	return seen{Seen: evidence.Seen{Fact: &lifecycle.Fact{Inst: "d", Ev: lifecycle.PagesRead, Req: req, Pool: "kv", Pages: lifecycle.Runs{{First: 1, Count: 1}}}}}
}

// Promise: the judge never waits for evidence; what is too much is counted, and it is
// never a finding or a verdict.
func TestWhatIsTooMuchForEvidenceIsCounted(t *testing.T) {
	a, _ := besides(t)
	var some []seen
	for range 1000 {
		some = append(some, read("r"))
	}
	for range 2*maxAside/len(some) + 1 {
		a.put(append([]seen{{verdict: &finding.Verdict{}}, {Seen: evidence.Seen{Finding: &finding.Finding{}}}}, some...))
	}
	facts, others := 0, 0
	for _, s := range a.queue {
		if s.Fact != nil {
			facts++
		} else {
			others++
		}
	}
	rounds := 2*maxAside/len(some) + 1
	if facts > maxAside || others != 2*rounds {
		t.Errorf("%d facts and %d others wait", facts, others)
	}
	if n := a.gather.Stats().Unkept; n != uint64(rounds*len(some)-facts) {
		t.Errorf("%d counted, %d of %d facts wait", n, facts, rounds*len(some))
	}
}

// Promise: a finding's page map is that of its moment, with the holders of its pages;
// and however many findings come, few maps are made.
func TestAPageMapIsThatOfItsMomentAndFewAreMade(t *testing.T) {
	a, _ := besides(t)
	l := ledger.New(ledger.Config{})
	dec := lifecycle.NewJSONDecoder()
	for n, line := range []string{
		`"ev":"pool_opened","pool":"kv","pages":9000,"page_tokens":16}`,
		`"ev":"request_admitted","req":"a"}`,
		`"ev":"pages_reserved","req":"a","pool":"kv","pages":[[5000,3]]}`,
	} {
		f, err := dec.Decode([]byte(fmt.Sprintf(`{"t":%d,"inst":"d","src":"engine",`, n+1) + line))
		if err != nil {
			t.Fatal(err)
		}
		l.Step(f)
	}
	l.Advance(1e9)
	f := &finding.Finding{Kind: finding.StaleRead, Inst: "d", Pool: "kv", Req: "a", Pages: finding.Pages{{First: 5001, Count: 1}}}
	m := a.mapOf(l, f)
	if m == nil || m.Pages != 9000 || fmt.Sprint(m.Runs) != "[[0 5000] [4 3] [0 3997]]" || len(m.Holders) != 1 || m.Holders[0].Holder.Req != "a" || m.Left != 0 {
		t.Fatalf("%+v", m)
	}
	if none := a.mapOf(l, &finding.Finding{Inst: "d", Pool: "swa"}); none == nil || none.Pages != 0 {
		t.Errorf("of a pool that is not there: %+v", none)
	}
	made, begun := 0, time.Now()
	for range 10_000 {
		if a.mapOf(l, f) != nil {
			made++
		}
	}
	if most := mapsBurst + int(time.Since(begun)/mapsEvery) + 1; made > most {
		t.Errorf("%d maps, at most %d", made, most)
	}
}

// Promise: a running sidecar keeps the evidence of what it finds, and shows it on its
// pages and in its state.
func TestWhatIsFoundIsKeptAndShown(t *testing.T) {
	dir, store := shortDir(t), t.TempDir()
	tb := newTable(t, "engines: 'a=;instance=i'\nevents_dir: "+dir+"\nevidence: "+store+"\n")
	publisher(t, dir, "i")
	var list struct {
		Incidents []evidence.Incident `json:"incidents"`
	}
	waitFor(t, "an incident", func() bool {
		return json.Unmarshal([]byte(tb.get("/api/v1/incidents")), &list) == nil && len(list.Incidents) == 1
	})
	i := list.Incidents[0]
	if i.Kind != finding.CapacityInversion || i.Open || !i.Wakes {
		t.Errorf("%+v", i)
	}
	for path, says := range map[string]string{
		"/incident/" + i.ID: "capacity_inversion", "/history": i.ID, "/api/v1/state": `"incidents":1`, "/api/v1/now": `"pool":"kv"`,
		"/metrics": `kvwitness_disclosures_open{kind="stale_read"} 0`,
	} {
		if body := tb.get(path); !strings.Contains(body, says) {
			t.Errorf("%s does not say %s: %s", path, says, body)
		}
	}
	tb.end()
	s, err := evidence.OpenReader(store)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	entries, err := s.Entries(i.ID)
	if err != nil || len(entries) != 2 || !strings.Contains(string(entries[1].Body), `"completed"`) {
		t.Errorf("%d entries, %v", len(entries), err)
	}
}

// BenchmarkAside is what it costs the judge to hand a fact on.
func BenchmarkAside(b *testing.B) {
	pusher, err := alert.New(alert.Config{})
	if err != nil {
		b.Fatal(err)
	}
	defer pusher.Close()
	a := newAside(nil, web.NewFlow(), pusher)
	defer a.close()
	j := &judge{aside: a}
	s := read("r")
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		j.note(s)
		if n%200 == 199 {
			j.handOn()
		}
	}
}
