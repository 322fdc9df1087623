package config

import (
	"fmt"
	"log/slog"
	"net/netip"
	"time"

	"github.com/kvwitness/kvwitness/engine/process"
	"github.com/kvwitness/kvwitness/engine/profile"
	"github.com/kvwitness/kvwitness/engine/scheduler"
	"github.com/kvwitness/kvwitness/engine/transfer/verbs"
	"github.com/kvwitness/kvwitness/kernels/reference"
)

// Serve is what `kvengine serve` can be told.
type Serve struct {
	process.Config
	ModelFile   string
	Backend     Backend
	KeyFile     string
	StopTimeout time.Duration
	Events      Events
	Profiles    profile.Config
	Log         Log
}

// Backend says where the pages lie and attention runs.
type Backend uint8

const (
	AutoBackend Backend = iota // a GPU if there is one that works, else the CPU
	CPUBackend
	CUDABackend // a GPU, or the engine does not start
)

// Events says where lifecycle events go.
type Events struct {
	On       bool
	Dir      string // of the IPC sockets
	Endpoint string // of the stream, if it is not in Dir
	Replay   string
	AllowTCP bool
	Record   string // a trace file
}

// Log says what is logged, to standard error.
type Log struct {
	Level slog.Level
	JSON  bool
}

var levels = map[string]slog.Level{"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError}

func (l *Log) table() Table {
	return Table{
		choice("log.level", "info", "what is logged to standard error", &l.Level, levels, "debug", "info", "warn", "error"),
		choice("log.format", "text", "how it is logged", &l.JSON, map[string]bool{"text": false, "json": true}, "text", "json"),
	}
}

const (
	maxPort  = 65535
	maxPages = 1 << 24
	maxCount = 1 << 20
)

// Table of the settings, each of which writes into s.
func (s *Serve) Table() Table {
	w := &s.Worker
	t := Table{
		choice("role", "unified", "what this process does", &w.Role, map[string]scheduler.Role{
			"unified": scheduler.Unified, "prefill": scheduler.Prefill, "decode": scheduler.Decode,
		}, "unified", "prefill", "decode"),
		text("host", "127.0.0.1", "address to listen at", &s.Host),
		number("port", 30000, 0, maxPort, "port of the API; 0: any", &s.Port),
		number("control-port", 0, 0, maxPort, "port of the control socket; 0: any", &s.ControlPort),
		number("bootstrap-port", 8998, 0, maxPort, "port at which prefill serves bootstrap; 0: any", &s.BootstrapPort),
		text("bootstrap-at", "", "address at which rank 0 serves bootstrap (prefill ranks beyond it)", &s.BootstrapAt),
		list("prefill", "bootstrap addresses of the prefills that may write here (decode)", &s.Prefills),
		choice("transfer", "tcp", "how pages move from prefill to decode, the same on both", &s.Transfer.Verbs, map[string]bool{"tcp": false, "verbs": true}, "tcp", "verbs"),
		text("verbs.device", "", "RDMA device, as ibv_devices names it; empty: the first", &s.Transfer.Device.Device),
		number("verbs.port", 1, 1, 255, "port of the RDMA device", &s.Transfer.Device.Port),
		number("verbs.gid", verbs.AnyGID, verbs.AnyGID, 255, "index of the port's GID; -1: the first that stands for an IPv4 address", &s.Transfer.Device.GID),
		number("rank", 0, 0, 63, "which of the ranks this prefill is", &w.Rank),
		number("ranks", 1, 1, 64, "how many prefill ranks bring a share of each page", &w.Ranks),
		text("model", "", "GGUF file of the model (Llama architecture); empty: the built-in one", &s.ModelFile),
		text("served-model-name", "", "name under which the model is served; empty: its own", &s.Model),
		text("key-file", "", "file of API keys, a line \"TENANT KEY\" each; empty: everybody is let in as one tenant", &s.KeyFile),
		number("pages", 1025, 2, maxPages, "pages of the pool, the null page included", &w.Pages),
		number("page-tokens", 16, reference.MinPageTokens, reference.MaxPageTokens, "tokens of a page, a multiple of 8", &w.PageTokens),
		choice("dtype", "float32", "how keys and values are kept", &w.DType, map[string]reference.DType{
			"float32": reference.Float32, "bfloat16": reference.BFloat16, "float16": reference.Float16,
		}, "float32", "bfloat16", "float16"),
		choice("backend", "auto", "where the pages lie: cuda needs kvengine-cuda beside this program; auto takes the GPU if it can", &s.Backend, map[string]Backend{
			"auto": AutoBackend, "cpu": CPUBackend, "cuda": CUDABackend,
		}, "auto", "cpu", "cuda"),
		number("slots", 0, 0, maxCount, "metadata slots; 0: twice max-running", &w.Slots),
		number("context-tokens", 4096, 2, 1<<17, "declared context, prompt and answer together", &w.ContextTokens),
		boolean("lower-context", "start with a lower context rather than refuse to", &w.LowerContext),
		number("max-queued", 256, 1, maxCount, "requests that wait; one more is told to come again", &w.MaxQueued),
		number("max-running", 32, 1, 4096, "requests in one batch", &w.MaxRunning),
		number("batch-tokens", 2048, 1, 1<<17, "tokens of one forward pass", &w.BatchTokens),
		number("chunk-tokens", 512, 1, 1<<17, "tokens of one request in one pass", &w.ChunkTokens),
		number("batch-pages", 64, 1, maxPages, "pages of one transfer (prefill)", &w.BatchPages),
		rate("slowest-pages-per-second", "what a transfer moves at worst: refuse to start where a batch could not drain in time; 0: not checked", &w.SlowestPagesPerSecond),
		duration("bootstrap-timeout", "30s", "how long prefill waits for decode's pages", &w.BootstrapTimeout),
		duration("queue-timeout", "1m", "how long a request may wait for its first page", &w.QueueTimeout),
		duration("transfer-timeout", "30s", "how long a handoff may make no progress", &w.TransferTimeout),
		duration("drain-timeout", "30s", "how long released pages may wait for their writers", &w.DrainTimeout),
		duration("stop-timeout", "30s", "how long a graceful stop may take", &s.StopTimeout),
		text("profiles", "", "address of a Pyroscope server for profiles of this process; empty: none are taken", &s.Profiles.URL),
		text("profiles-token-file", "", "file with the token to show to the Pyroscope server; empty: none", &s.Profiles.TokenFile),
	}
	return append(append(append(t, s.drills()...), s.Events.table()...), s.Log.table()...)
}

func (s *Serve) drills() Table {
	w := &s.Worker
	names, order := map[string]scheduler.Drill{"none": scheduler.NoDrill}, []string{"none"}
	for _, d := range scheduler.Drills() {
		names[d.Name], order = d.Drill, append(order, d.Name)
	}
	return Table{
		choice("drill", "none", "fault to commit on purpose; see kvengine drills", &w.Drill, names, order...),
		protections("drill-keep", "protections that stay on in spite of the drill", &w.Keep),
		protections("drill-off", "protections that are off in a drill besides those that would stop it", &w.Off),
		number("drill-every", 1, 1, maxCount, "of so many requests one commits the fault, the first", &w.DrillEvery),
		duration("drill-delay", "100ms", "how long a drilled transfer runs before it is given up, or its last chunk is late", &w.DrillDelay),
		boolean("allow-request-drill", "let a request name a drill of its own in the header Kvengine-Drill", &w.AllowRequestDrill),
		boolean("drill-scrub", "zero pages before they are named to a peer, so that a drill finds no old bytes", &w.Scrub),
	}
}

func protections(name, help string, at *[]scheduler.Protection) setting {
	var names []string
	s := list(name, help, &names)
	s.allowed = "a list of protections; see kvengine drills"
	set := s.set
	s.set = func(text string) error {
		if err := set(text); err != nil {
			return err
		}
		*at = nil
		for _, n := range names {
			p, err := scheduler.ParseProtection(n)
			if err != nil {
				return err
			}
			*at = append(*at, p)
		}
		return nil
	}
	return s
}

func (e *Events) table() Table {
	return Table{
		choice("events", "on", "publish lifecycle events", &e.On, map[string]bool{"on": true, "off": false}, "on", "off"),
		text("events.dir", "", "folder of the sockets' files; empty: the user's runtime folder", &e.Dir),
		text("events.endpoint", "", "endpoint of the stream instead, ipc://PATH or tcp://HOST:PORT", &e.Endpoint),
		text("events.replay", "", "endpoint of replay and snapshot instead", &e.Replay),
		boolean("events.allow-tcp", "allow TCP, where nobody is asked who he is", &e.AllowTCP),
		text("events.record", "", "also write a trace to this file, which must not exist", &e.Record),
	}
}

// Check refuses what does not fit together.
func (s *Serve) Check() error {
	if s.Worker.PageTokens%8 != 0 {
		return fmt.Errorf("%w: page-tokens is %d: the built-in model wants a multiple of 8", ErrConfig, s.Worker.PageTokens)
	}
	if s.Worker.Rank >= s.Worker.Ranks {
		return fmt.Errorf("%w: rank %d of %d", ErrConfig, s.Worker.Rank, s.Worker.Ranks)
	}
	if len(s.Worker.Off) > 0 && s.Worker.Drill == scheduler.NoDrill {
		return fmt.Errorf("%w: drill-off without a drill: protections stay on where nothing is to be shown", ErrConfig)
	}
	if s.Worker.Role == scheduler.Decode && len(s.Prefills) == 0 {
		return fmt.Errorf("%w: a decode engine needs prefill: the bootstrap addresses of those that may write to it", ErrConfig)
	}
	return private(s.Host, s.KeyFile != "", s.Worker.Role != scheduler.Unified)
}

// private refuses an address that strangers may reach without a key, or at all
// where control messages and bytes go in the clear.
func private(host string, keys, control bool) error {
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return fmt.Errorf("%w: host %q is not an IP address", ErrConfig, host)
	}
	if ip.IsLoopback() || ip.IsPrivate() || ip.IsLinkLocalUnicast() || keys && !control {
		return nil
	}
	if control {
		return fmt.Errorf("%w: host %s is not a private address: control messages and pages go in the clear", ErrConfig, host)
	}
	return fmt.Errorf("%w: host %s is not a private address: name a key-file", ErrConfig, host)
}
