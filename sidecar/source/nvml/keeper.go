package nvml

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// A helper that ends is started again, after a pause that doubles.
	firstPause, longestPause = time.Second, time.Minute
	// maxStuck is how many helpers may be left behind, hanging in the kernel, before
	// no more are started.
	maxStuck = 4
)

// KeeperConfig says what to keep.
type KeeperConfig struct {
	Find  func() (path string, err error) // of the helper; nil: Find
	Start StartConfig                     // but for its path and output
	// Sampled is told each sample whose state is OK; it may take its time.
	Sampled func(s *Sample)
	Log     *slog.Logger
	Pause   time.Duration // before the first restart; 0: a second
}

// Status is how the driver stands. What it points to is not changed any more.
type Status struct {
	State  State
	Call   string // that State is about
	Said   string
	Last   *Sample // the last that was OK; nil: none yet
	Starts uint64
	Stuck  int // helpers that hang in the kernel
	GPUs   []GPU
}

// GPU is one that was seen once.
type GPU struct {
	UUID  string
	State State // Lost where it is not in the last sample
	XIDs  []XID // since the sidecar began, by code
}

// Keeper keeps a helper and its last sample. Status may be called from any goroutine
// and waits for nobody.
type Keeper struct {
	cfg   KeeperConfig
	stuck atomic.Int32

	mu     sync.Mutex
	status Status
	seen   []string                     // GPUs, in the order in which they were seen
	before map[string]map[uint64]uint64 // XIDs that earlier helpers counted
	now    map[string][]XID             // that the present one did
}

// NewKeeper returns a Keeper that has asked nobody yet.
func NewKeeper(cfg KeeperConfig) *Keeper {
	if cfg.Find == nil {
		cfg.Find = Find
	}
	if cfg.Pause <= 0 {
		cfg.Pause = firstPause
	}
	return &Keeper{cfg: cfg, before: map[string]map[uint64]uint64{}, now: map[string][]XID{}}
}

// Run keeps a helper until ctx ends.
func (k *Keeper) Run(ctx context.Context) {
	pause := k.cfg.Pause
	for ctx.Err() == nil {
		begun := time.Now()
		if int(k.stuck.Load()) < maxStuck {
			k.watch(ctx)
		}
		if ctx.Err() != nil {
			return
		}
		if time.Since(begun) > longestPause {
			pause = k.cfg.Pause
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
		pause = min(2*pause, longestPause)
	}
}

// begin starts a helper, or waits for one that something else starts.
func (k *Keeper) begin(ctx context.Context) (*Child, error) {
	c := k.cfg.Start
	if c.Socket != "" {
		return Await(ctx, c)
	}
	var err error
	if c.Path, err = k.cfg.Find(); err != nil {
		return nil, err
	}
	c.Stderr = &complaint{log: k.cfg.Log}
	return Start(c)
}

// watch has a helper and takes in what it says until it ends.
func (k *Keeper) watch(ctx context.Context) {
	child, err := k.begin(ctx)
	if err != nil {
		k.is(NoHelper, "", err.Error())
		return
	}
	k.mu.Lock()
	k.status.Starts++
	k.mu.Unlock()
	// A call that hangs keeps no one: what is read then ends with the pipe.
	stop := context.AfterFunc(ctx, func() { _ = child.out.SetReadDeadline(time.Now()) })
	defer stop()
	state := Unread
	for err == nil && ctx.Err() == nil {
		var s *Sample
		if s, err = child.Next(); err == nil {
			state = s.State
			k.take(s)
		}
	}
	stuck, ended := child.Close()
	if stuck {
		k.stuck.Add(1)
		go func() { <-child.Ended(); k.stuck.Add(-1) }()
	}
	if ctx.Err() == nil {
		k.ended(state, err, ended)
	}
}

// ended notes why a helper is no more: by its last word, where that was no sample.
func (k *Keeper) ended(last State, read, how error) {
	k.mu.Lock()
	for uuid, xids := range k.now {
		for _, x := range xids {
			k.count(uuid, x)
		}
	}
	k.now = map[string][]XID{}
	k.mu.Unlock()
	switch {
	case errors.Is(read, os.ErrDeadlineExceeded):
		k.is(Hangs, "", "it says nothing")
	case errors.Is(read, ErrFormat):
		k.is(Died, "", read.Error())
	case last != OK && last != Unread: // it said why
	case how != nil:
		k.is(Died, "", how.Error())
	default:
		k.is(Died, "", read.Error())
	}
}

// count adds to what earlier helpers counted. k.mu is held.
func (k *Keeper) count(uuid string, x XID) {
	of := k.before[uuid]
	if of == nil {
		if len(k.before) == MaxGPUs {
			return
		}
		of = map[uint64]uint64{}
		k.before[uuid] = of
	}
	if _, known := of[x.Code]; known || len(of) < MaxXIDs {
		of[x.Code] += x.Count
	}
}

// is takes over a state, and logs it when it is another.
func (k *Keeper) is(s State, call, said string) {
	k.mu.Lock()
	was := k.status.State
	k.status.State, k.status.Call, k.status.Said = s, call, word(said)
	k.mu.Unlock()
	if was == s {
		return
	}
	switch s {
	case OK:
		k.cfg.Log.Info("the driver tells who holds memory of the GPUs")
	case NoHelper, NoDriver, NoGPU:
		k.cfg.Log.Info("there are no GPUs to ask about", "state", s.String(), "remedy", s.Remedy())
	default:
		k.cfg.Log.Warn("the driver does not tell who holds memory of the GPUs", "state", s.String(), "call", call, "said", said, "remedy", s.Remedy())
	}
}

// take keeps a sample.
func (k *Keeper) take(s *Sample) {
	k.is(s.State, s.Call, s.Said)
	if s.State != OK {
		return
	}
	k.mu.Lock()
	k.status.Last = s
	for i := range s.Devices {
		d := &s.Devices[i]
		if d.Parent != "" || d.UUID == "" {
			continue
		}
		if !slices.Contains(k.seen, d.UUID) && len(k.seen) < MaxGPUs {
			k.seen = append(k.seen, d.UUID)
		}
		k.now[d.UUID] = d.XIDs
	}
	k.mu.Unlock()
	if k.cfg.Sampled != nil {
		k.cfg.Sampled(s)
	}
}

// Status is how the driver stands.
func (k *Keeper) Status() Status {
	k.mu.Lock()
	defer k.mu.Unlock()
	s := k.status
	s.Stuck = int(k.stuck.Load())
	for _, uuid := range k.seen {
		g := GPU{UUID: uuid, State: Lost}
		for i := range s.Last.Devices {
			if d := &s.Last.Devices[i]; d.UUID == uuid {
				g.State = d.State
			}
		}
		all := maps.Clone(k.before[uuid])
		if all == nil {
			all = map[uint64]uint64{}
		}
		for _, x := range k.now[uuid] {
			all[x.Code] += x.Count
		}
		for _, code := range slices.Sorted(maps.Keys(all)) {
			g.XIDs = append(g.XIDs, XID{code, all[code]})
		}
		s.GPUs = append(s.GPUs, g)
	}
	return s
}

// complaint hands what a helper writes to the log.
type complaint struct{ log *slog.Logger }

var _ io.Writer = (*complaint)(nil)

func (c *complaint) Write(b []byte) (int, error) {
	c.log.Debug("kvwitness-nvml says", "text", word(string(b)))
	return len(b), nil
}

// Ask reads the driver once, for those who do not run a sidecar.
func Ask(ctx context.Context, c StartConfig) Status {
	find := func() (string, error) { return c.Path, nil }
	if c.Path == "" {
		find = nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c.Once = true
	k := NewKeeper(KeeperConfig{Find: find, Start: c, Log: slog.New(slog.DiscardHandler), Sampled: func(*Sample) { cancel() }})
	k.watch(ctx)
	return k.Status()
}

// Line says in one line how the driver stands, and what to do.
func (s *Status) Line() string {
	text := s.State.String()
	if s.Call != "" {
		text += " (" + s.Call + ")"
	}
	if s.State == OK {
		seen, whole := 0, 0
		for i := range s.Last.Devices {
			d := &s.Last.Devices[i]
			if d.Parent == "" && d.State == OK {
				seen++
			}
			if d.Whole() {
				whole++
			}
		}
		return fmt.Sprintf("driver %s, %d of %d GPUs read, processes known on %d of %d devices", s.Last.Driver, seen, s.Last.Count, whole, len(s.Last.Devices))
	}
	if remedy := s.State.Remedy(); remedy != "" {
		text += ": " + remedy
	}
	return text
}
