package metrics

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/sidecar/ledger"
	"github.com/kvwitness/kvwitness/sidecar/peer"
	"github.com/kvwitness/kvwitness/sidecar/source/follow"
	"github.com/kvwitness/kvwitness/sidecar/source/kvevents"
	"github.com/kvwitness/kvwitness/sidecar/source/logs"
)

// full is a reading in which everything is known, of so many engines.
func full(engines int) Reading {
	r := Reading{Limits: ledger.DefaultConfig().Limits, Now: 5e9, ReloadAt: time.Now()}
	for i := range engines {
		s := follow.Status{Name: fmt.Sprint("engine-", i), Instance: fmt.Sprint("instance-", i)}
		s.Queue.LastPut = 4e9
		s.Poll.Pool, s.Poll.Context, s.Poll.Effective = lifecycle.Some(int64(1)), lifecycle.Some(int64(2)), lifecycle.Some(int64(3))
		for k := range s.Said.Pools {
			s.Said.Pools[k] = follow.Pool{Open: true, Pages: 17000, Audit: lifecycle.Some(lifecycle.Audit{Free: 5})}
		}
		r.Engines = append(r.Engines, s)
		r.Beside = append(r.Beside, Beside{s.Name, kvevents.Stats{Batches: 3}, [logs.NumLine]uint64{2}})
	}
	r.Serving, r.Peers = true, []peer.Status{{Name: "peer-0", Known: true}}
	r.GPUs = gpus()
	r.Copies = &Copies{}
	return r
}

func gather(t testing.TB, r Reading) []*dto.MetricFamily {
	t.Helper()
	all, err := New(func() Reading { return r }).Gather()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestNamesHelpAndUnitsAreAsPrometheusWantsThem(t *testing.T) {
	problems, err := promlint.NewWithMetricFamilies(gather(t, full(2))).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		if strings.HasPrefix(p.Metric, Prefix) {
			t.Errorf("%s: %s", p.Metric, p.Text)
		}
	}
}

// What is told is what is defined, and a label has no value but those of its set.
func TestLabelsAreClosedSets(t *testing.T) {
	said := map[string]bool{}
	for _, family := range gather(t, full(3)) {
		if !strings.HasPrefix(family.GetName(), Prefix) {
			continue
		}
		said[family.GetName()] = true
		i := slices.IndexFunc(All, func(d *Def) bool { return d.Name == family.GetName() })
		if i < 0 {
			t.Errorf("%s is not defined", family.GetName())
			continue
		}
		for _, m := range family.GetMetric() {
			for _, pair := range m.GetLabel() {
				at := slices.IndexFunc(All[i].Labels, func(l Label) bool { return l.Name == pair.GetName() })
				values := All[i].Labels[at].Values
				if values != nil && !slices.Contains(values, pair.GetValue()) || values == nil && pair.GetValue() != "" && !strings.HasPrefix(pair.GetValue(), pair.GetName()+"-") {
					t.Errorf("%s: %s=%q", family.GetName(), pair.GetName(), pair.GetValue())
				}
			}
		}
	}
	for _, d := range All {
		if !said[d.Name] {
			t.Errorf("%s is defined and never told", d.Name)
		}
	}
}

func series(families []*dto.MetricFamily) map[string]bool {
	names := map[string]bool{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if strings.HasPrefix(f.GetName(), Prefix) {
				names[fmt.Sprint(f.GetName(), m.GetLabel())] = true
			}
		}
	}
	return names
}

// Whatever an engine calls itself, its pools, its endpoints and its troubles, there
// is no series that was not there before.
func TestNothingThatAnEngineSaysIsALabel(t *testing.T) {
	before := series(gather(t, full(1)))
	r := full(1)
	s := &r.Engines[0]
	s.Instance, s.Endpoint, s.Refused = "evil\n{}\"", "ipc://evil", "evil"
	s.State, s.Epoch = 7, 1<<63
	for i := range s.Said.Protections {
		s.Said.Protections[i] = lifecycle.Some(lifecycle.State(9))
	}
	after := series(gather(t, r))
	for name := range after {
		if !before[name] {
			t.Errorf("new: %s", name)
		}
	}
}

// increase() misses the first event of a counter that was not there before it.
func TestCountersAreThereFromTheStart(t *testing.T) {
	start := series(gather(t, Reading{Engines: []follow.Status{{Name: "engine-0"}}, Serving: true, Peers: []peer.Status{{Name: "peer-0"}}, GPUs: gpus(), Copies: &Copies{}, Limits: ledger.DefaultConfig().Limits}))
	for name := range series(gather(t, full(1))) {
		counts := slices.ContainsFunc(All, func(d *Def) bool {
			return d.Type == prometheus.CounterValue && (name == d.Name || strings.HasPrefix(name, d.Name+"["))
		})
		if counts && !start[name] {
			t.Errorf("%s is not there at the start", name)
		}
	}
}

func TestWhatIsNotKnownIsAbsent(t *testing.T) {
	for name := range series(gather(t, Reading{Engines: []follow.Status{{Name: "engine-0"}}})) {
		for _, unknown := range []string{"last_fact_age", "pool_capacity", "pool_pages", "pool_size", "context_tokens"} {
			if strings.Contains(name, unknown) {
				t.Errorf("%s is told", name)
			}
		}
	}
}

func TestADelayHasItsFindingAsExemplar(t *testing.T) {
	m := New(func() Reading { return Reading{} })
	m.Found(4*time.Millisecond, 42)
	all, err := m.Gather()
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(all, func(f *dto.MetricFamily) bool { return f.GetName() == delay.Name })
	h := all[i].GetMetric()[0].GetHistogram()
	var exemplar string
	for _, b := range h.GetBucket() {
		if b.GetExemplar() != nil {
			exemplar = b.GetExemplar().GetLabel()[0].GetValue()
		}
	}
	if h.GetSampleCount() != 1 || exemplar != "42" {
		t.Errorf("%d samples, exemplar %q", h.GetSampleCount(), exemplar)
	}
}

func TestTheReferenceIsThatOfTheCode(t *testing.T) {
	var want strings.Builder
	if err := WriteReference(&want); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile("../../docs/METRICS.md")
	if err != nil || string(got) != want.String() {
		t.Errorf("docs/METRICS.md is not what the code says (%v): run make generate", err)
	}
}

// BenchmarkScrape is a scrape of eight engines, without the encoding.
func BenchmarkScrape(b *testing.B) {
	r := full(8)
	m := New(func() Reading { return r })
	b.ReportAllocs()
	for b.Loop() {
		if _, err := m.Gather(); err != nil {
			b.Fatal(err)
		}
	}
}
