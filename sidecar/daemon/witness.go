package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/sidecar/intake"
	"github.com/kvwitness/kvwitness/sidecar/probe"
	"github.com/kvwitness/kvwitness/sidecar/source/proven"
)

// A probe that ends is started again, after a pause that doubles.
const firstPause, longestPause = time.Second, time.Minute

// witness is the probe, and what is made of what it sees.
type witness struct {
	log   *slog.Logger
	in    *intake.Intake
	node  string
	rules []string
	// followed reports whether an instance tells of its pools itself.
	followed func(instance string) bool

	mu    sync.Mutex
	seen  WitnessState
	paths map[path]bool // into instances, from peers: all of it is seen
}

// path is the way of data from a peer into an instance.
type path struct{ into, from string }

// maxPaths bounds the paths whose sight is shown in metrics.
const maxPaths = 1 << 12

// declared takes note of what the probe's sight of a path is.
func (w *witness) declared(f *lifecycle.Fact) {
	w.mu.Lock()
	defer w.mu.Unlock()
	p := path{f.Inst, f.Peer}
	if _, known := w.paths[p]; known || len(w.paths) < maxPaths {
		w.paths[p] = f.Complete
	}
}

// covered are the instances into which every path that is known is seen.
func (w *witness) covered() map[string]bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := map[string]bool{}
	for p, complete := range w.paths {
		before, known := all[p.into]
		all[p.into] = complete && (before || !known)
	}
	return all
}

// WitnessState is how the view from outside stands.
type WitnessState struct {
	Watching bool         `json:"watching"`
	Problem  string       `json:"problem,omitempty"` // why it does not, and the last one otherwise
	Starts   uint64       `json:"starts"`
	Seen     proven.Stats `json:"seen"` // of the present probe
}

func (w *witness) state() WitnessState {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.seen
}

func (w *witness) say(change func(*WitnessState)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change(&w.seen)
}

// run keeps a probe until ctx ends.
func (w *witness) run(ctx context.Context) {
	pause := firstPause
	for ctx.Err() == nil {
		begun := time.Now()
		err := w.watch(ctx)
		if ctx.Err() != nil {
			return
		}
		if time.Since(begun) > longestPause {
			pause = firstPause
		}
		w.log.Error("nothing is watched from outside; as root and with kvwitness-probe beside this command it would be", "error", err, "again_in", pause)
		w.say(func(s *WitnessState) { s.Watching, s.Problem = false, err.Error() })
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
		pause = min(2*pause, longestPause)
	}
}

// watch starts a probe and takes in what it sees until it ends.
func (w *witness) watch(ctx context.Context) error {
	path, err := probe.Find()
	if err != nil {
		return err
	}
	child, err := probe.Start(ctx, probe.StartConfig{Path: path, Match: w.rules, Stderr: lines{w.log}})
	if err != nil {
		return fmt.Errorf("start %s: %w", path, err)
	}
	src := w.in.Open("", func() intake.Standing { return intake.Live })
	defer src.Close()
	state := proven.New(proven.Config{
		Node: w.node, Followed: w.followed,
		Emit: func(f *lifecycle.Fact) {
			// What an engine that is followed says on the wire it says in its stream
			// too, under other names; of it only what is seen is news.
			if f.Ev == lifecycle.SourceCoverage {
				w.declared(f)
			}
			if f.Src != lifecycle.Wire || !w.followed(f.Inst) {
				src.Put(ctx, f)
			}
		},
		Problem: func(text string) {
			w.log.Warn("not all can be seen from outside", "problem", text)
			w.say(func(s *WitnessState) { s.Problem = text })
		},
	})
	w.say(func(s *WitnessState) { s.Watching, s.Starts, s.Problem = true, s.Starts+1, "" })
	defer w.forget()
	w.log.Info("watching from outside", "processes", w.rules)
	closed := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(closed)
		_ = child.Close()
	})
	for err == nil {
		var kind probe.Kind
		var payload []byte
		if kind, payload, err = child.Next(); err == nil {
			err = state.Take(kind, payload)
			src.Reached(state.Reached())
			w.say(func(s *WitnessState) { s.Seen = state.Stats() })
		}
	}
	if !stop() {
		<-closed
		return ctx.Err()
	}
	w.blind(ctx, src)
	return errors.Join(fmt.Errorf("the probe ended: %w", err), child.Close())
}

// forget is for a probe that ended: nothing is seen.
func (w *witness) forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.paths = map[path]bool{}
}

// blind tells the judge that what the probe saw goes on unseen.
func (w *witness) blind(ctx context.Context, src *intake.Source) {
	for _, of := range []lifecycle.Src{lifecycle.TCP, lifecycle.Wire} {
		src.Put(ctx, &lifecycle.Fact{
			T: now(), Node: w.node, Src: lifecycle.Sidecar, Ev: lifecycle.EventsLost,
			Of: of, Stage: "probe", Reason: "it ended",
		})
	}
}

// lines hands what a process writes to the log.
type lines struct{ log *slog.Logger }

func (l lines) Write(b []byte) (int, error) {
	l.log.Warn("the probe says", "text", string(b[:min(len(b), 512)]))
	return len(b), nil
}
