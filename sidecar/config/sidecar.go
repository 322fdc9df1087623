package config

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kvwitness/kvwitness/sidecar/attach"
	"github.com/kvwitness/kvwitness/sidecar/source/kvevents"
	"github.com/kvwitness/kvwitness/sidecar/source/logs"
)

// MaxEngines is how many engines one sidecar follows: their names are label
// values, and so bounded.
const MaxEngines = 64

// maxName is the longest name of an engine.
const maxName = 64

// Sidecar is what only `kvwitness sidecar` can be told.
type Sidecar struct {
	Engines       []Engine
	Node          string
	EventsDir     string
	Listen        string
	TokenFile     string
	ListenFiles   ListenFiles
	EngineKeyFile string
	EngineCAFile  string
	Shadow        bool
	Record        string
	RecordBytes   int
	RecordFiles   int
	LiveSettle    time.Duration
	Slack         time.Duration
	Poll          time.Duration
	Ahead, Behind time.Duration
	SnapshotBytes int
	EnginePages   int
	Watch         []string // processes to watch from outside: rules of sidecar/attach
	Completions   bool     // of RDMA requests are seen
	CUDA          bool     // what is asked of the CUDA driver is seen
	CUDADeny      []string // versions of it that are let alone
	CUDACopies    bool     // and what it is asked to copy
	ProbeSocket   string   // where a probe is waited for that something else starts; empty: it is started
	Evidence      Evidence
	Alerts        Alerts
	Profiles      string // URL of a Pyroscope server
	ProfilesToken string // the file of the token for it
	Peers         Peers
}

// ListenFiles are what the sidecar listens with by TLS: a certificate, its key, and who
// vouches for clients. All empty: it is plain HTTP.
type ListenFiles struct{ Cert, Key, CA string }

// Engine is one engine that is followed. One of URL, Instance, KVEvents and Log is
// known: an engine that is only known by its URL is asked for the rest.
type Engine struct {
	Name     string // in metrics and output
	URL      string // of its HTTP API; empty: it is not polled
	Instance string // in its events
	Events   string // endpoint of its stream; empty: by its instance, in the events' folder
	Replay   string // endpoint of replay and snapshot; as Events
	KVEvents string // endpoint of its KV events (SGLang, vLLM), of rank 0; empty: not followed
	KVReplay string // endpoint of their replay
	KVRanks  string // how many data-parallel ranks tell of theirs; empty: one
	Log      string // file of its log, or journal:UNIT; empty: not followed
}

// String is the engine as a flag has it.
func (e Engine) String() string {
	var b strings.Builder
	b.WriteString(e.Name + "=" + e.URL)
	for _, p := range e.parts() {
		if p.name != "url" && *p.at != "" {
			b.WriteString(";" + p.name + "=" + *p.at)
		}
	}
	return b.String()
}

// Ranks is how many data-parallel ranks tell of their KV events; 0: a number that is
// none.
func (e *Engine) Ranks() int {
	if e.KVRanks == "" {
		return 1
	}
	n, err := strconv.Atoi(e.KVRanks)
	if err != nil {
		return 0
	}
	return n
}

type part struct {
	name string
	at   *string
}

// parts are what may follow an engine's name and URL.
func (e *Engine) parts() []part {
	return []part{
		{"url", &e.URL},
		{"instance", &e.Instance},
		{"events", &e.Events},
		{"replay", &e.Replay},
		{"kv_events", &e.KVEvents},
		{"kv_replay", &e.KVReplay},
		{"kv_ranks", &e.KVRanks},
		{"log", &e.Log},
	}
}

// maxDeny is how many versions of the CUDA driver may be let alone.
const maxDeny = 64

// cudaDeny lists versions of the CUDA driver that the probe is not to attach to.
func cudaDeny() setting {
	return setting{
		"watch_cuda_deny", "versions of the CUDA driver to attach nothing to, as 550.54.15 or 560.*,…; a driver that does not say its version is let alone too then", "",
		"a list of at most 64 versions, separated by commas; * stands for any digits and dots",
		func(c *Config, text string) error {
			c.Sidecar.CUDADeny = nil
			for version := range strings.SplitSeq(text, ",") {
				if version = strings.TrimSpace(version); version == "" {
					continue
				}
				if strings.Trim(version, "0123456789.*") != "" || len(version) > maxName || len(c.Sidecar.CUDADeny) == maxDeny {
					return errNotAllowed
				}
				c.Sidecar.CUDADeny = append(c.Sidecar.CUDADeny, version)
			}
			return nil
		},
		func(c *Config) string { return strings.Join(c.Sidecar.CUDADeny, ",") },
	}
}

// enginesKey is the key that lists them.
const enginesKey = "engines"

// watch names the processes that the probe looks at.
func watch() setting {
	return setting{
		"watch", "processes to watch from outside, KIND=PATTERN,…; needs root; empty: none", "",
		"a list of KIND=PATTERN, separated by commas; kinds are pid, exe, command, cgroup and container",
		func(c *Config, text string) error {
			c.Sidecar.Watch = nil
			for rule := range strings.SplitSeq(text, ",") {
				if rule = strings.TrimSpace(rule); rule == "" {
					continue
				}
				if _, err := attach.ParseRule(rule); err != nil || len(c.Sidecar.Watch) == attach.MaxRules {
					return errNotAllowed
				}
				c.Sidecar.Watch = append(c.Sidecar.Watch, rule)
			}
			return nil
		},
		func(c *Config) string { return strings.Join(c.Sidecar.Watch, ",") },
	}
}

const enginesForm = "a list of NAME=URL, separated by commas; after a semicolon also instance=, events=, replay=, kv_events=, kv_replay=, kv_ranks= and log=FILE or journal:UNIT; " +
	"names of a-z, 0-9, . _ / and -"

func engines() setting {
	return setting{
		enginesKey, "engines to follow, NAME=URL[;instance=…][;events=…][;replay=…][;kv_events=…][;log=…],…", "", enginesForm,
		func(c *Config, text string) (err error) {
			c.Sidecar.Engines, err = ParseEngines(text)
			return err
		},
		func(c *Config) string {
			var all []string
			for _, e := range c.Sidecar.Engines {
				all = append(all, e.String())
			}
			return strings.Join(all, ",")
		},
	}
}

// ParseEngines reads a list of engines; every name and every instance may be
// there once.
func ParseEngines(text string) (all []Engine, err error) {
	for item := range strings.SplitSeq(text, ",") {
		if item = strings.TrimSpace(item); item == "" {
			continue
		}
		e, err := parseEngine(item)
		if err != nil {
			return nil, err
		}
		if len(all) == MaxEngines {
			return nil, fmt.Errorf("more than %d engines: %w", MaxEngines, errNotAllowed)
		}
		if slices.ContainsFunc(all, func(o Engine) bool { return o.Name == e.Name || o.Instance != "" && o.Instance == e.Instance }) {
			return nil, fmt.Errorf("engine %s is named twice: %w", e.Name, errNotAllowed)
		}
		all = append(all, e)
	}
	return all, nil
}

func parseEngine(item string) (e Engine, err error) {
	for i, field := range strings.Split(item, ";") {
		name, value, said := strings.Cut(field, "=")
		if !said {
			return e, errNotAllowed
		}
		if i == 0 {
			e.Name, e.URL = name, value
			continue
		}
		at := slices.IndexFunc(e.parts(), func(p part) bool { return p.name == name })
		if at < 0 || value == "" || *e.parts()[at].at != "" {
			return e, errNotAllowed
		}
		*e.parts()[at].at = value
	}
	if _, _, err := logs.Unit(e.Log); err != nil {
		return e, fmt.Errorf("log of engine %s: %w: %w", e.Name, errNotAllowed, err)
	}
	u, err := url.Parse(e.URL)
	switch {
	case !nameAllowed(e.Name), e.URL == "" && e.Instance == "" && e.KVEvents == "" && e.Log == "":
		return e, errNotAllowed
	case !socketAllowed(e.KVEvents), !socketAllowed(e.KVReplay):
		return e, errNotAllowed
	case e.KVRanks != "" && (e.Ranks() < 1 || e.Ranks() > kvevents.MaxRanks):
		return e, errNotAllowed
	case e.URL != "" && (err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil):
		return e, errNotAllowed
	}
	return e, nil
}

// socketAllowed reports whether a text is an endpoint of ZeroMQ's, or empty.
func socketAllowed(endpoint string) bool {
	return endpoint == "" || strings.HasPrefix(endpoint, "tcp://") || strings.HasPrefix(endpoint, "ipc://")
}

func nameAllowed(name string) bool {
	return name != "" && len(name) <= maxName && !strings.ContainsFunc(name, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || strings.ContainsRune("._/-", r))
	})
}
