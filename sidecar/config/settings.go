package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/kvwitness/kvwitness/sidecar/ledger"
)

// Config is all that kvwitness can be told.
type Config struct {
	Judge   ledger.Config
	Log     Log
	Sidecar Sidecar
	GPUs    GPUs // only for a sidecar
}

// Log says what kvwitness logs, to standard error.
type Log struct {
	Level  string // debug, info, warn, error
	Format string // text, json
}

// setting is one key: how it is called in a file, what it is for, what it is
// unless told, and how a text becomes its value.
type setting struct {
	name     string
	help     string
	fallback string
	allowed  string
	set      func(c *Config, text string) error
	get      func(c *Config) string
}

// settings are all keys, in the order in which they are shown.
var settings = slices.Concat([]setting{
	duration("settle", "20ms", "how long facts may take to be put in order, and how long after its last transfer a handoff is judged",
		func(c *Config) *time.Duration { return &c.Judge.Settle }),
	duration("grace", "1s", "how long an engine's own count of held pages may differ from the ledger's",
		func(c *Config) *time.Duration { return &c.Judge.Grace }),
	duration("stall", "30s", "how long reserved pages may see no progress",
		func(c *Config) *time.Duration { return &c.Judge.Stall }),
	word("log.level", "info", "what is logged to standard error",
		func(c *Config) *string { return &c.Log.Level }, "debug", "info", "warn", "error"),
	word("log.format", "text", "how it is logged",
		func(c *Config) *string { return &c.Log.Format }, "text", "json"),
	limit("instances", 1<<10, "instances known", func(l *ledger.Limits) *int { return &l.Instances }),
	limit("pools", 1<<12, "pools over all instances", func(l *ledger.Limits) *int { return &l.Pools }),
	limit("pages", 10<<20, "pages over all pools", func(l *ledger.Limits) *int { return &l.Pages }),
	limit("requests", 1<<17, "requests not yet ended", func(l *ledger.Limits) *int { return &l.Requests }),
	limit("ended", 1<<13, "ended requests and rooms remembered", func(l *ledger.Limits) *int { return &l.Ended }),
	limit("transfers", 1<<12, "transfers in one room", func(l *ledger.Limits) *int { return &l.Transfers }),
	limit("activity", 4<<20, "pages that transfers name, over all pools", func(l *ledger.Limits) *int { return &l.Activity }),
	limit("strays", 1<<16, "pieces posted where nothing waits for them and not seen to end, over all pools, as runs", func(l *ledger.Limits) *int { return &l.Strays }),
	limit("fragments", 1<<20, "pieces of partly written pages", func(l *ledger.Limits) *int { return &l.Fragments }),
	limit("releases", 1<<12, "earlier references that one request remembers, as runs", func(l *ledger.Limits) *int { return &l.Releases }),
	limit("past_owner", 4, "ended transfers that one page remembers", func(l *ledger.Limits) *int { return &l.PastOwner }),
	limit("window", 1<<18, "facts held back to be put in order", func(l *ledger.Limits) *int { return &l.Window }),
	limit("missing", 1<<10, "ranges of missing sequence numbers in a stream", func(l *ledger.Limits) *int { return &l.Missing }),
	limit("digests", 1<<10, "content digests of one room", func(l *ledger.Limits) *int { return &l.Digests }),
	limit("pending", 1<<16, "reads that wait for their step to end", func(l *ledger.Limits) *int { return &l.Pending }),
	limit("peers", 1<<12, "peers of an instance in coverage and layout checks", func(l *ledger.Limits) *int { return &l.Peers }),
	limit("samples", 1<<12, "GPUs and processes with a vram sample, per node", func(l *ledger.Limits) *int { return &l.Samples }),
	engines(),
	watch(),
	boolean("watch_completions", "see how each RDMA request ends; each poll for completions pays for it", func(c *Config) *bool { return &c.Sidecar.Completions }),
	boolean("watch_cuda", "see what watched processes allocate of the CUDA driver, and who opens it; false: nothing is attached to the driver", func(c *Config) *bool { return &c.Sidecar.CUDA }),
	cudaDeny(),
	boolean("watch_cuda_copies", "with watch_cuda: count what is copied into and out of pools by calls of the CUDA driver; each copy of a watched process pays for it", func(c *Config) *bool { return &c.Sidecar.CUDACopies }),
	text("probe_socket", "", "socket at which to wait for a kvwitness-probe --connect that something else starts, as in a container of its own; empty: the sidecar starts it", func(c *Config) *string { return &c.Sidecar.ProbeSocket }),
	text("node", "", "name of this node in facts; empty: its host name", func(c *Config) *string { return &c.Sidecar.Node }),
	text("events_dir", "", "folder of the engines' sockets; empty: where engines put them by default", func(c *Config) *string { return &c.Sidecar.EventsDir }),
	text("listen", "127.0.0.1:9464", "address of metrics, health and API, HOST:PORT", func(c *Config) *string { return &c.Sidecar.Listen }),
	text("token_file", "", "file with the token that metrics and API ask for; beyond private addresses it, or listen_ca_file, is needed", func(c *Config) *string { return &c.Sidecar.TokenFile }),
	text("listen_cert_file", "", "file with the certificate of metrics, health, pages and API, as PEM: they are https then; empty: plain HTTP", func(c *Config) *string { return &c.Sidecar.ListenFiles.Cert }),
	text("listen_key_file", "", "file with the key of that certificate", func(c *Config) *string { return &c.Sidecar.ListenFiles.Key }),
	text("listen_ca_file", "", "file with the authorities by one of which whoever asks needs a certificate, as PEM; empty: nobody does", func(c *Config) *string { return &c.Sidecar.ListenFiles.CA }),
	text("engine_key_file", "", "file with the API key to show to engines; empty: none", func(c *Config) *string { return &c.Sidecar.EngineKeyFile }),
	text("engine_ca_file", "", "file with the authorities that may vouch for engines at https; empty: the system's", func(c *Config) *string { return &c.Sidecar.EngineCAFile }),
	boolean("shadow", "report everything and wake nobody", func(c *Config) *bool { return &c.Sidecar.Shadow }),
	text("record", "", "also write all facts to this trace file; older ones get a number", func(c *Config) *string { return &c.Sidecar.Record }),
	count("record_bytes", 64<<20, 1<<16, 1<<40, "size at which a trace file is put aside", func(c *Config) *int { return &c.Sidecar.RecordBytes }),
	count("record_files", 8, 1, 1000, "trace files that are kept, the present one included", func(c *Config) *int { return &c.Sidecar.RecordFiles }),
	duration("live_settle", "3ms", "settle while engines are followed: their facts have been put in order by then",
		func(c *Config) *time.Duration { return &c.Sidecar.LiveSettle }),
	duration("slack", "3ms", "how late facts are expected at least; it grows by itself while the node is busy, up to 1s",
		func(c *Config) *time.Duration { return &c.Sidecar.Slack }),
	duration("poll", "5s", "how often an engine's server_info and models are asked for", func(c *Config) *time.Duration { return &c.Sidecar.Poll }),
	duration("ahead", "50ms", "how far ahead of the node's clock a fact may be before it is refused", func(c *Config) *time.Duration { return &c.Sidecar.Ahead }),
	duration("behind", "30s", "how far behind the node's clock a fact may be before it is refused", func(c *Config) *time.Duration { return &c.Sidecar.Behind }),
	count("snapshot_bytes", 64<<20, 1<<16, 1<<30, "bytes of one snapshot of an engine", func(c *Config) *int { return &c.Sidecar.SnapshotBytes }),
	count("engine_pages", 5<<19, 1, maxLimit, "pages over all pools of one engine", func(c *Config) *int { return &c.Sidecar.EnginePages }),
	text("evidence", "", "folder in which incidents are kept; empty: they are not", func(c *Config) *string { return &c.Sidecar.Evidence.Dir }),
	count("evidence_bytes", 128<<20, 16<<20, 1<<40, "size of the evidence on disk", func(c *Config) *int { return &c.Sidecar.Evidence.Bytes }),
	count("evidence_days", 90, 1, 3650, "days for which evidence is kept", func(c *Config) *int { return &c.Sidecar.Evidence.Days }),
	count("evidence_memory", 24<<20, 1<<20, 1<<34, "bytes of facts that are remembered for the evidence of what comes", func(c *Config) *int { return &c.Sidecar.Evidence.Memory }),
	alertmanagers(),
	alertLabels(),
	text("alertmanager_token_file", "", "file with the token to show to Alertmanagers; empty: none", func(c *Config) *string { return &c.Sidecar.Alerts.TokenFile }),
	text("alertmanager_ca_file", "", "file with the authorities that may vouch for Alertmanagers; empty: the system's", func(c *Config) *string { return &c.Sidecar.Alerts.CAFile }),
	pageURL(),
	hosts(),
	profiles(),
	text("profiles_token_file", "", "file with the token to show to the Pyroscope server; empty: none", func(c *Config) *string { return &c.Sidecar.ProfilesToken }),
	peers(),
	text("peer_listen", "", "address at which sidecars of other nodes ask for facts, HOST:PORT; empty: none may", func(c *Config) *string { return &c.Sidecar.Peers.Listen }),
	text("peer_cert_file", "", "file with this node's certificate for its peers, as PEM", func(c *Config) *string { return &c.Sidecar.Peers.CertFile }),
	text("peer_key_file", "", "file with the key of that certificate", func(c *Config) *string { return &c.Sidecar.Peers.KeyFile }),
	text("peer_ca_file", "", "file with the authorities that vouch for peers, as PEM", func(c *Config) *string { return &c.Sidecar.Peers.CAFile }),
	text("peer_token_file", "", "file with the token that peers on loopback know each other by, instead of certificates", func(c *Config) *string { return &c.Sidecar.Peers.TokenFile }),
	duration("peer_patience", "1s", "how old what a peer says may be before the peer is out of sight; the judge waits for it for so long",
		func(c *Config) *time.Duration { return &c.Sidecar.Peers.Patience }),
}, gpuSettings())

// maxDuration is the longest time that may be set: longer ones are mistakes.
const maxDuration = 24 * time.Hour

// maxText is the longest text that may be set.
const maxText = 4096

// maxLimit is the highest limit that may be set.
const maxLimit = 1 << 30

func duration(name, fallback, help string, at func(*Config) *time.Duration) setting {
	return setting{
		name, help, fallback, fmt.Sprintf("a duration such as 20ms or 1m30s, above 0 and at most %s", maxDuration),
		func(c *Config, text string) error {
			d, err := time.ParseDuration(text)
			if err != nil || d <= 0 || d > maxDuration {
				return errNotAllowed
			}
			*at(c) = d
			return nil
		},
		func(c *Config) string { return at(c).String() },
	}
}

func limit(name string, fallback int, help string, at func(*ledger.Limits) *int) setting {
	return setting{
		"limits." + name, help, strconv.Itoa(fallback), fmt.Sprintf("a whole number from 1 to %d", maxLimit),
		func(c *Config, text string) error {
			n, err := strconv.Atoi(text)
			if err != nil || n < 1 || n > maxLimit {
				return errNotAllowed
			}
			*at(&c.Judge.Limits) = n
			return nil
		},
		func(c *Config) string { return strconv.Itoa(*at(&c.Judge.Limits)) },
	}
}

func count(name string, fallback, least, most int, help string, at func(*Config) *int) setting {
	return setting{
		name, help, strconv.Itoa(fallback), fmt.Sprintf("a whole number from %d to %d", least, most),
		func(c *Config, text string) error {
			n, err := strconv.Atoi(text)
			if err != nil || n < least || n > most {
				return errNotAllowed
			}
			*at(c) = n
			return nil
		},
		func(c *Config) string { return strconv.Itoa(*at(c)) },
	}
}

// truth is what a boolean may be.
const truth = "true or false"

func boolean(name, help string, at func(*Config) *bool) setting {
	return setting{
		name, help, "false", truth,
		func(c *Config, text string) error {
			if text != "true" && text != "false" {
				return errNotAllowed
			}
			*at(c) = text == "true"
			return nil
		},
		func(c *Config) string { return strconv.FormatBool(*at(c)) },
	}
}

func text(name, fallback, help string, at func(*Config) *string) setting {
	return setting{
		name, help, fallback, fmt.Sprintf("a text of at most %d bytes", maxText),
		func(c *Config, text string) error {
			if len(text) > maxText || strings.ContainsFunc(text, unicode.IsControl) {
				return errNotAllowed
			}
			*at(c) = text
			return nil
		},
		func(c *Config) string { return *at(c) },
	}
}

func word(name, fallback, help string, at func(*Config) *string, allowed ...string) setting {
	return setting{
		name, help, fallback, "one of " + strings.Join(allowed, ", "),
		func(c *Config, text string) error {
			if !slices.Contains(allowed, text) {
				return errNotAllowed
			}
			*at(c) = text
			return nil
		},
		func(c *Config) string { return *at(c) },
	}
}

// read is the text of a file's value.
func (s setting) read(value any) string {
	if s.name == enginesKey || s.name == peersKey {
		return listed(value)
	}
	return scalar(value)
}

// live reports whether only a sidecar needs the key.
func (s setting) live() bool {
	first := slices.IndexFunc(settings, func(s setting) bool { return s.name == enginesKey })
	return slices.IndexFunc(settings, func(o setting) bool { return o.name == s.name }) >= first
}

// variable is the environment variable of a key: KVWITNESS_LIMITS_PAGES.
func (s setting) variable() string {
	return Prefix + strings.ToUpper(strings.ReplaceAll(s.name, ".", "_"))
}

// flag is the flag of a key, without its dashes: limits-past-owner.
func (s setting) flag() string { return strings.NewReplacer(".", "-", "_", "-").Replace(s.name) }
