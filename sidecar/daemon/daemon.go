package daemon

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/engine/profile"
	"github.com/kvwitness/kvwitness/sidecar/alert"
	"github.com/kvwitness/kvwitness/sidecar/config"
	"github.com/kvwitness/kvwitness/sidecar/evidence"
	"github.com/kvwitness/kvwitness/sidecar/intake"
	"github.com/kvwitness/kvwitness/sidecar/ledger"
	"github.com/kvwitness/kvwitness/sidecar/metrics"
	"github.com/kvwitness/kvwitness/sidecar/record"
	"github.com/kvwitness/kvwitness/sidecar/report"
	"github.com/kvwitness/kvwitness/sidecar/serve"
	"github.com/kvwitness/kvwitness/sidecar/web"
)

// EndTimeout is how long the end takes at most, once it is asked for.
const EndTimeout = 5 * time.Second

// maxToken bounds the file of the token.
const maxToken = 4096

// Options say how to run.
type Options struct {
	Config config.Config
	Origin config.Origin
	// Load reads the configuration anew, from where it came.
	Load func() (config.Config, config.Origin, error)
	// Level takes over another level of the log.
	Level func(level string)
	Out   io.Writer // of findings and verdicts
	Log   *slog.Logger
	// Version is that of this program, as evidence says it.
	Version string
}

// Daemon is a sidecar.
type Daemon struct {
	log    *slog.Logger
	load   func() (config.Config, config.Origin, error)
	level  func(string)
	node   string
	key    string // that engines are shown
	in     *intake.Intake
	judge  *judge
	report *report.Log
	record *record.Recorder
	server *serve.Server
	view   *witness // from outside; nil: nobody is to be watched
	peers  *peers
	gpus   *gpus // nil: the driver is not asked
	shadow atomic.Bool
	aside  *aside
	pusher *alert.Pusher
	flow   *web.Flow
	store  *evidence.Store    // nil: no evidence is kept
	gather *evidence.Gatherer // as store
	prof   *profile.Profiler  // nil: no profiles are taken

	mu       sync.Mutex
	cfg      config.Config
	origin   config.Origin
	engines  []*engine
	reloadOK bool
	reloadAt time.Time

	claims  sync.Mutex
	named   []config.Engine
	claimed map[string]claimed // instance to the engine that is followed as it
	silent  map[string]bool    // engines that have no lifecycle stream
}

// clockOrigin is one moment on the node's monotonic clock and on Go's, which is the same
// clock read without a system call, from another zero.
var clockOrigin = func() (o struct {
	node int64
	here time.Time
},
) {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts) // the kernel always has this clock
	o.node, o.here = ts.Nano(), time.Now()
	return o
}()

// now is the node's monotonic clock in ns, that of the facts.
func now() int64 { return clockOrigin.node + int64(time.Since(clockOrigin.here)) }

// New opens what a sidecar needs, and follows nobody yet.
func New(ctx context.Context, o Options) (*Daemon, error) {
	s := o.Config.Sidecar
	node := s.Node
	if node == "" {
		var err error
		if node, err = os.Hostname(); err != nil {
			return nil, fmt.Errorf("name this node: %w; set node", err)
		}
	}
	token, err := readToken(s.TokenFile)
	if err != nil {
		return nil, err
	}
	key, err := readToken(s.EngineKeyFile)
	if err != nil {
		return nil, err
	}
	d := &Daemon{
		log: o.Log, load: o.Load, level: o.Level, node: node, key: key, cfg: o.Config, origin: o.Origin,
		claimed: map[string]claimed{}, peers: newPeers(), silent: map[string]bool{}, named: s.Engines, reloadOK: true, reloadAt: time.Now(),
		in: intake.New(intake.Config{Now: now, Slack: s.Slack, Ahead: s.Ahead, Behind: s.Behind}),
	}
	d.shadow.Store(s.Shadow)
	if s.Record != "" {
		if d.record, err = record.New(record.Config{Path: s.Record, Bytes: s.RecordBytes, Files: s.RecordFiles, Header: header(node)}); err != nil {
			return nil, err
		}
	}
	if err = d.keep(&s, o.Version); err != nil {
		return nil, errors.Join(err, d.closeOutputs())
	}
	if err = d.meet(ctx, &s); err != nil {
		return nil, errors.Join(err, d.closeOutputs())
	}
	d.report = report.New(o.Out)
	m := metrics.New(d.reading)
	d.askDriver(&o.Config.GPUs, o.Log)
	reaching := newExtents(node)
	judging := o.Config.Judge
	judging.Settle, judging.Order, judging.HoldVerdicts = s.LiveSettle, inOrder, false
	d.judge = &judge{
		in: d.in, ledger: ledger.New(judging), settle: s.LiveSettle, log: d.report, record: d.record,
		found: m.Found, shadow: d.shadow.Load, now: now, aside: d.aside, questions: make(chan func(*ledger.Ledger)),
		anothers: d.anothers, opened: func(f *lifecycle.Fact) { d.gpus.opened(f); reaching.note(f) },
	}
	if len(s.Watch) > 0 || s.ProbeSocket != "" {
		d.view = &witness{
			log: o.Log, in: d.in, node: node, rules: s.Watch, socket: s.ProbeSocket, completions: s.Completions, cuda: s.CUDA, deny: s.CUDADeny, copies: s.CUDA && s.CUDACopies,
			stranger: strangers(&o.Config.GPUs), followed: d.follows, extent: reaching.of, paths: map[path]sight{}, peers: d.peers,
		}
	}
	access, err := accessOf(d, &s.ListenFiles, token)
	if err != nil {
		return nil, errors.Join(err, d.closeOutputs())
	}
	d.server, err = serve.Listen(ctx, s.Listen, access, serve.Source{
		Metrics: m, Sees: d.sees, Findings: d.report.Findings, Verdicts: d.report.Verdicts, State: func() any { return d.state() },
		Web: web.Handler(web.Source{Node: d.node, State: d.stateJSON, Judge: d.judge.ask, Store: d.store, Flow: d.flow, Closed: d.reopen}), Hosts: s.Alerts.Hosts,
	})
	if err != nil {
		return nil, errors.Join(err, d.closeOutputs())
	}
	if s.Alerts.PageURL == "" {
		d.pusher.At(d.URL())
	}
	return d, nil
}

// header says how the node's clock stands.
func header(node string) lifecycle.Header {
	boot, _ := os.ReadFile("/proc/sys/kernel/random/boot_id") // absent: not said
	return lifecycle.Header{
		Node: node, Boot: string(bytes.TrimSpace(boot)),
		Wall: time.Now().Add(-time.Duration(now())).UTC().Format(time.RFC3339Nano),
	}
}

// readToken reads a secret from a file of its own.
func readToken(path string) (string, error) {
	if path == "" {
		return "", nil
	}
	in, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("read the token: %w", err)
	}
	defer in.Close()
	text, err := io.ReadAll(io.LimitReader(in, maxToken))
	if err != nil {
		return "", fmt.Errorf("read the token: %w", err)
	}
	if text = bytes.TrimSpace(text); len(text) == 0 {
		return "", fmt.Errorf("read the token: %s is empty", path)
	}
	return string(text), nil
}

// URL of the metrics and the API.
func (d *Daemon) URL() string { return d.server.URL() }

// Run follows and judges until ctx ends.
func (d *Daemon) Run(ctx context.Context) error {
	clock, err := newAlarm()
	if err != nil {
		return errors.Join(err, d.server.Close(ctx), d.closeOutputs())
	}
	judging, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	judged := make(chan struct{})
	go func() { defer close(judged); d.judge.run(judging, clock) }()
	d.mu.Lock()
	d.follow(ctx, d.cfg.Sidecar.Engines)
	d.mu.Unlock()
	parted := make(chan struct{})
	go func() { defer close(parted); d.peers.run(ctx) }()
	asked := make(chan struct{})
	go func() { defer close(asked); d.gpus.run(ctx) }()
	viewed := make(chan struct{})
	go func() {
		defer close(viewed)
		if d.view != nil {
			d.view.run(ctx)
		}
	}()
	d.log.Info("watching", "url", d.URL(), "engines", len(d.cfg.Sidecar.Engines), "node", d.node, "shadow", d.shadow.Load())
	<-ctx.Done()
	d.log.Info("ending")
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), EndTimeout)
	defer cancel()
	d.mu.Lock()
	d.follow(ctx, nil)
	d.mu.Unlock()
	select {
	case <-viewed:
	case <-end.Done():
		return errors.New("end: the probe did not come to an end in time")
	}
	if err := part(parted, end.Done()); err != nil {
		return err
	}
	select {
	case <-asked:
	case <-end.Done():
		return errors.New("end: kvwitness-nvml did not come to an end in time")
	}
	stop()
	select {
	case <-judged:
	case <-end.Done():
		return errors.New("end: the judge did not come to an end in time")
	}
	short, cancel := context.WithTimeout(end, time.Second)
	defer cancel()
	return errors.Join(d.server.Close(short), d.closeOutputs())
}

func (d *Daemon) closeOutputs() error {
	err := errors.Join(d.peers.close(), d.letGo())
	if d.report != nil {
		d.report.Close(time.Second)
	}
	if d.record == nil {
		return err
	}
	return errors.Join(err, d.record.Close())
}
