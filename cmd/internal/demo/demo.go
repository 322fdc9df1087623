package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"time"
)

// Config says how the demo runs.
type Config struct {
	Engine string // path of kvengine
	Self   string // path of kvwitness
	Model  string // model file that the engines serve; empty: the built-in one
	JSON   bool   // one object a line instead of a table
	Keep   bool   // leave the drilled engines running until ctx ends
	Claims bool   // watch nothing from outside
	Out    io.Writer
	Notes  io.Writer
}

// lookFirst is how long there is to open the page before the incident is played.
const lookFirst = 5 * time.Second

// ErrNotAsItShouldBe is wrapped by what the demo fails with.
var ErrNotAsItShouldBe = errors.New("not as it should be")

type demo struct {
	Config
	engine, self, dir string
	watch             string // processes that the sidecar watches from outside, "" without the right to
	outside           bool   // it does
	blind             string // why it does not
}

// Run plays the scenarios and prints what came of them. Its error says all that
// was not as it should be.
func Run(ctx context.Context, cfg Config) error {
	runtime.LockOSThread() // the kernel ends the children with the thread that started them
	defer runtime.UnlockOSThread()
	dir, err := os.MkdirTemp("", "kvw-demo")
	if err != nil {
		return fmt.Errorf("make a folder for the demo: %w", err)
	}
	defer os.RemoveAll(dir)
	d := &demo{Config: cfg, engine: cfg.Engine, self: cfg.Self, dir: dir}
	if os.Geteuid() == 0 && !cfg.Claims {
		d.watch = "exe=" + cfg.Engine
	}
	var rows []*row
	var wrong []error
	play := scenarios
	if cfg.Model != "" {
		play = scenarios[:theIncident]
	}
	for _, s := range play {
		began := time.Now()
		row, err := d.play(ctx, s)
		if err != nil {
			return errors.Join(fmt.Errorf("%s: %w", s.name, err), d.endKept(rows))
		}
		row.Took = time.Since(began).Seconds()
		rows = append(rows, row)
		for _, w := range row.Wrong {
			wrong = append(wrong, fmt.Errorf("%w: %s: %s", ErrNotAsItShouldBe, s.name, w))
		}
	}
	if err := d.print(rows); err != nil {
		return errors.Join(err, d.endKept(rows))
	}
	if cfg.Keep && len(wrong) == 0 {
		d.printKept(rows[0].kept)
		<-ctx.Done()
	}
	return errors.Join(append(wrong, d.endKept(rows))...)
}

// endKept ends the engines that were left running.
func (d *demo) endKept(rows []*row) error {
	var all []error
	for _, r := range rows {
		if r.kept != nil {
			all = append(all, r.kept.end())
		}
	}
	return errors.Join(all...)
}

// play runs one scenario with engines of its own. A machine that is too busy makes
// facts come late, which makes the sidecar blind and nothing else: it is then asked
// to wait longer for them, and the row says so.
func (d *demo) play(ctx context.Context, s *scenario) (*row, error) {
	r, err := d.playOnce(ctx, s, s.shape)
	if s.shape.slack == unhurried || err == nil && (len(r.Wrong) == 0 || r.Findings["blind"] == 0) {
		return r, err
	}
	if r != nil && r.kept != nil {
		if err := r.kept.end(); err != nil {
			return nil, err
		}
	}
	slow := s.shape
	slow.slack = unhurried
	if r, err = d.playOnce(ctx, s, slow); err == nil {
		r.Unhurried = true
	}
	return r, err
}

func (d *demo) playOnce(ctx context.Context, s *scenario, as shape) (*row, error) {
	w, err := d.begin(ctx, as)
	if err != nil {
		return nil, err
	}
	d.outside, d.blind = w.outside, w.blind
	if d.Keep && s == scenarios[0] {
		fmt.Fprintf(d.Notes, "The page of the sidecar shows the incident as it happens, in a moment: %s/\n", w.sidecar)
		select {
		case <-ctx.Done():
		case <-time.After(lookFirst):
		}
	}
	r := &row{Scenario: s.name}
	if err := s.play(ctx, w, r); err != nil {
		return nil, errors.Join(err, w.logs(), w.end())
	}
	if d.Keep && s == scenarios[0] {
		r.kept = w
		return r, nil
	}
	if err := w.end(); err != nil {
		r.wrong("%v", err)
	}
	return r, nil
}
