package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/sidecar/intake"
	"github.com/kvwitness/kvwitness/sidecar/probe"
	"github.com/kvwitness/kvwitness/sidecar/probe/guest"
	"github.com/kvwitness/kvwitness/sidecar/source/proven"
)

// A probe that ends is started again, after a pause that doubles.
const firstPause, longestPause = time.Second, time.Minute

// silence is how long a probe may say nothing: it looks every few milliseconds and says
// how far it has come, but where all is slow, attaching may take it seconds. It is less
// than intake.SilenceLimit.
const silence = 20 * time.Second

// witness is the probe, and what is made of what it sees.
type witness struct {
	log   *slog.Logger
	in    *intake.Intake
	node  string
	rules []string
	// socket at which a probe is waited for that something else starts; "": it is
	// started here.
	socket string
	// completions of RDMA requests are to be seen too.
	completions bool
	// cuda: what is asked of the CUDA driver too, but for drivers of a denied version.
	cuda     bool
	deny     []string
	copies   bool // and what it is asked to copy
	stranger func(process, owner uint32) bool
	heldAt   time.Time // of the goroutine that watches
	// followed reports whether an instance tells of its pools itself.
	followed func(instance string) bool
	// extent is how far a region of a pool reaches: see proven.Config.
	extent func(instance string, base uint64) (bytes uint64, known bool)
	peers  *peers // that are told of what is seen of their memory

	mu    sync.Mutex
	seen  WitnessState
	paths map[path]sight
}

// path is the way of data from a peer into an instance, over one transport.
type path struct {
	into, from string
	over       lifecycle.Src
}

// sight is what is seen of a path: all of it, or why not.
type sight struct {
	complete bool
	reason   string
}

// PathState is what is seen of the data from a peer into an instance.
type PathState struct {
	Into     string `json:"into"`
	From     string `json:"from"`
	Over     string `json:"over"`
	Complete bool   `json:"complete"`
	Reason   string `json:"reason,omitempty"`
}

// maxPaths bounds the paths whose sight is shown in metrics.
const maxPaths = 1 << 12

// declared takes note of what the probe's sight of a path is.
func (w *witness) declared(f *lifecycle.Fact) {
	w.mu.Lock()
	defer w.mu.Unlock()
	p := path{f.Inst, f.Peer, f.Of}
	if _, known := w.paths[p]; known || len(w.paths) < maxPaths {
		w.paths[p] = sight{f.Complete, f.Reason}
	}
}

// covered are, for each transport, the instances into which every path over it that
// is known is seen.
func (w *witness) covered() map[lifecycle.Src]map[string]bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := map[lifecycle.Src]map[string]bool{}
	for p, s := range w.paths {
		if all[p.over] == nil {
			all[p.over] = map[string]bool{}
		}
		before, known := all[p.over][p.into]
		all[p.over][p.into] = s.complete && (before || !known)
	}
	all[lifecycle.CUDA] = w.seesMemory()
	return all
}

// WitnessState is how the view from outside stands.
type WitnessState struct {
	Watching bool         `json:"watching"`
	Problem  string       `json:"problem,omitempty"` // why it does not, and the last one otherwise
	Starts   uint64       `json:"starts"`
	Paths    []PathState  `json:"paths"` // that were met
	Seen     proven.Stats `json:"seen"`  // of the present probe
	// Memory that processes have of the CUDA driver, where that is watched.
	Memory []MemoryState `json:"memory,omitempty"`
	// Copied is what was copied by calls of the driver, by the instance whose pools it
	// touches, where that is watched.
	Copied map[string]proven.Copied `json:"copied,omitempty"`
}

func (w *witness) state() WitnessState {
	w.mu.Lock()
	defer w.mu.Unlock()
	seen := w.seen
	seen.Paths = make([]PathState, 0, len(w.paths))
	for p, s := range w.paths {
		seen.Paths = append(seen.Paths, PathState{p.into, p.from, p.over.String(), s.complete, s.reason})
	}
	slices.SortFunc(seen.Paths, func(a, b PathState) int {
		return cmp.Or(cmp.Compare(a.Into, b.Into), cmp.Compare(a.From, b.From), cmp.Compare(a.Over, b.Over))
	})
	return seen
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

// running is a probe, whoever started it.
type running interface {
	Next() (probe.Kind, []byte, error)
	Close() error
}

// start starts a probe, or waits for one that something else starts.
func (w *witness) start(ctx context.Context) (running, error) {
	if w.socket != "" {
		return guest.Await(ctx, w.socket)
	}
	path, err := probe.Find()
	if err != nil {
		return nil, err
	}
	child, err := probe.Start(ctx, probe.StartConfig{Path: path, Match: w.rules, Completions: w.completions, CUDA: w.cuda, CUDADeny: w.deny, Copies: w.copies, Stderr: lines{w.log}})
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", path, err)
	}
	return child, nil
}

// watch has a probe and takes in what it sees until it ends.
func (w *witness) watch(ctx context.Context) error {
	child, err := w.start(ctx)
	if err != nil {
		return err
	}
	src := w.in.Open("", func() intake.Standing { return intake.Live })
	defer src.Close()
	state := proven.New(proven.Config{
		Node: w.node, Followed: w.followed, Extent: w.extent, Local: newGIDs(gidsOfNode).local, Stranger: w.stranger,
		Emit: func(f *lifecycle.Fact) {
			// What an engine that is followed says on the wire it says in its stream
			// too, under other names; of it only what is seen is news.
			if f.Ev == lifecycle.SourceCoverage {
				w.declared(f)
			}
			w.peers.saw(f)
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
	end := sync.OnceValue(child.Close)
	stop := context.AfterFunc(ctx, func() { _ = end() })
	hung := time.AfterFunc(silence, func() { _ = end() })
	for err == nil {
		var kind probe.Kind
		var payload []byte
		if kind, payload, err = child.Next(); err == nil {
			hung.Reset(silence)
			err = state.Take(kind, payload)
			src.Reached(state.Reached())
			w.peers.reached(state.Reached())
			w.say(func(s *WitnessState) { s.Seen = state.Stats() })
			w.holds(state)
		}
	}
	said := hung.Stop()
	if !stop() {
		_ = end()
		return ctx.Err()
	}
	w.blind(src, state.Stats().Posted > 0)
	if !said {
		err = fmt.Errorf("it said nothing for %s", silence)
	}
	return errors.Join(fmt.Errorf("the probe ended: %w", err), end())
}

// forget is for a probe that ended: nothing is seen.
func (w *witness) forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.paths, w.seen.Memory = map[path]sight{}, nil
}

// blind tells the judge that what the probe saw goes on unseen, from where the probe
// had come to.
func (w *witness) blind(src *intake.Source, rdma bool) {
	for _, of := range []lifecycle.Src{lifecycle.TCP, lifecycle.RDMA, lifecycle.Wire} {
		if of == lifecycle.RDMA && !rdma {
			continue // nobody used it
		}
		f := &lifecycle.Fact{
			T: now(), Node: w.node, Src: lifecycle.Sidecar, Ev: lifecycle.EventsLost,
			Of: of, Stage: "probe", Reason: "it ended",
		}
		src.Interject(0, f)
		w.peers.saw(f)
	}
	w.peers.reached(0)
}

// lines hands what a process writes to the log.
type lines struct{ log *slog.Logger }

func (l lines) Write(b []byte) (int, error) {
	l.log.Warn("the probe says", "text", string(b[:min(len(b), 512)]))
	return len(b), nil
}
