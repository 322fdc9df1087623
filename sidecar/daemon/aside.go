package daemon

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/engine/profile"
	"github.com/kvwitness/kvwitness/sidecar/alert"
	"github.com/kvwitness/kvwitness/sidecar/evidence"
	"github.com/kvwitness/kvwitness/sidecar/finding"
	"github.com/kvwitness/kvwitness/sidecar/ledger"
	"github.com/kvwitness/kvwitness/sidecar/web"
)

const (
	// maxAside is how many facts wait for evidence and pages at most.
	maxAside = 1 << 16
	// asideEvery is how often time passes for the evidence when nothing happens.
	asideEvery = 250 * time.Millisecond
	// mapsBurst is how many page maps the judge makes at once for evidence, and
	// mapsEvery how often one more.
	mapsBurst = 8
	mapsEvery = 200 * time.Millisecond
	// maxMapRuns bounds a page map, and maxHolders the pages whose holders it tells.
	maxMapRuns = 1 << 14
	maxHolders = 256
	// closeTimeout is how long the evidence may take at the end.
	closeTimeout = time.Second
)

// seen is one thing that the judge took or said.
type seen struct {
	evidence.Seen
	verdict *finding.Verdict
}

// aside makes evidence, pages and alerts of what the judge takes and says, beside it.
// put is for the judge and waits for nobody.
type aside struct {
	gather *evidence.Gatherer // nil: no evidence is kept
	flow   *web.Flow
	pusher *alert.Pusher

	mu    sync.Mutex
	queue []seen
	wake  chan struct{}
	done  chan struct{}

	maps   int // left; of the judge's goroutine
	mapsAt time.Time
	batch  []evidence.Seen // of the goroutine
	facts  []*lifecycle.Fact
}

func newAside(gather *evidence.Gatherer, flow *web.Flow, pusher *alert.Pusher) *aside {
	a := &aside{gather: gather, flow: flow, pusher: pusher, wake: make(chan struct{}, 1), done: make(chan struct{}), maps: mapsBurst, mapsAt: time.Now()}
	go a.run()
	return a
}

// put hands on what was taken and said in one turn. What does not fit is counted; but
// findings and verdicts always do.
func (a *aside) put(all []seen) {
	if len(all) == 0 {
		return
	}
	a.mu.Lock()
	if len(a.queue)+len(all) > maxAside {
		before := len(all)
		all = slices.DeleteFunc(all, func(s seen) bool { return s.Fact != nil })
		if a.gather != nil {
			a.gather.Unkept(uint64(before - len(all)))
		}
	}
	a.queue = append(a.queue, all...)
	a.mu.Unlock()
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

// run works on what waits until close.
func (a *aside) run() {
	defer close(a.done)
	profile.Phase("evidence")
	timer := time.NewTicker(asideEvery)
	defer timer.Stop()
	var spare []seen
	for open := true; open; {
		select {
		case _, open = <-a.wake:
		case <-timer.C:
		}
		a.mu.Lock()
		todo := a.queue
		a.queue = spare[:0]
		a.mu.Unlock()
		a.take(todo)
		clear(todo)
		spare = todo
	}
	if a.gather != nil {
		a.gather.Close(closeTimeout)
	}
}

func (a *aside) take(all []seen) {
	a.batch, a.facts = a.batch[:0], a.facts[:0]
	for i := range all {
		s := &all[i]
		switch {
		case s.verdict != nil:
			a.flow.Facts(a.facts) // a verdict comes after its facts
			a.facts = a.facts[:0]
			a.flow.Verdict(s.verdict)
			continue
		case s.Fact != nil:
			a.facts = append(a.facts, s.Fact)
		case a.gather == nil && s.Finding != nil && !s.Shadow && !s.Finding.Synthetic:
			f := s.Finding
			a.pusher.Raise(alert.Incident{Kinds: []finding.Kind{f.Kind}, Name: f.Incident(), Inst: f.Inst, First: time.Now()})
		}
		a.batch = append(a.batch, s.Seen)
	}
	a.flow.Facts(a.facts)
	if a.gather != nil {
		a.gather.Take(a.batch, time.Now())
	}
	clear(a.batch)
	clear(a.facts)
}

// close works off what waits.
func (a *aside) close() {
	close(a.wake)
	<-a.done
}

// mapOf is the page map of a finding's moment, where evidence wants it and there are
// not too many. It is for the judge.
func (a *aside) mapOf(l *ledger.Ledger, f *finding.Finding) *evidence.Map {
	if a.gather == nil || !a.gather.Wants(f) {
		return nil
	}
	if n := int(time.Since(a.mapsAt) / mapsEvery); n > 0 {
		a.maps, a.mapsAt = min(mapsBurst, a.maps+n), time.Now()
	}
	if a.maps == 0 {
		return nil
	}
	a.maps--
	return pageMap(l, f)
}

func pageMap(l *ledger.Ledger, f *finding.Finding) *evidence.Map {
	m := &evidence.Map{Inst: f.Inst, Pool: f.Pool}
	for s := range ledger.NumPageState {
		m.States = append(m.States, s.String())
	}
	look := make([]ledger.PageLook, 1<<12)
	for n := l.Look(f.Inst, f.Pool, 0, look); n > 0; n = l.Look(f.Inst, f.Pool, m.Pages, look) {
		m.Pages += n
		for _, p := range look[:n] {
			last := len(m.Runs) - 1
			switch {
			case last >= 0 && m.Runs[last][0] == int(p.State) && m.Left == 0:
				m.Runs[last][1]++
			case last+1 < maxMapRuns:
				m.Runs = append(m.Runs, [2]int{int(p.State), 1})
			default:
				m.Left++
			}
		}
	}
	for _, r := range f.Pages {
		for at := r.First; at < r.End() && len(m.Holders) < maxHolders; at++ {
			if h, ok := l.Holder(f.Inst, f.Pool, int(at)); ok {
				m.Holders = append(m.Holders, holderOf(int(at), &h))
			}
		}
	}
	return m
}

func holderOf(at int, h *ledger.Holder) evidence.Page {
	p := evidence.Page{Page: at, Held: h.Held, Refs: h.Refs, Cached: h.Cached}
	if h.Holder.Inst != "" {
		p.Holder = &h.Holder
	}
	if h.Content.Inst != "" {
		p.Content = &h.Content
	}
	return p
}

// ask has the judge answer a question between two turns.
func (j *judge) ask(ctx context.Context, question func(*ledger.Ledger)) error {
	answered := make(chan struct{})
	select {
	case j.questions <- func(l *ledger.Ledger) { question(l); close(answered) }:
	case <-ctx.Done():
		return ctx.Err()
	}
	<-answered // the judge is at it
	return nil
}
