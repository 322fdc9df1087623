package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kvwitness/kvwitness/sidecar/ledger"
)

// Config is all that kvwitness can be told.
type Config struct {
	Judge ledger.Config
	Log   Log
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
var settings = []setting{
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
	limit("fragments", 1<<20, "pieces of partly written pages", func(l *ledger.Limits) *int { return &l.Fragments }),
	limit("releases", 1<<12, "earlier references that one request remembers, as runs", func(l *ledger.Limits) *int { return &l.Releases }),
	limit("past_owner", 4, "ended transfers that one page remembers", func(l *ledger.Limits) *int { return &l.PastOwner }),
	limit("window", 1<<18, "facts held back to be put in order", func(l *ledger.Limits) *int { return &l.Window }),
	limit("missing", 1<<10, "ranges of missing sequence numbers in a stream", func(l *ledger.Limits) *int { return &l.Missing }),
	limit("digests", 1<<10, "content digests of one room", func(l *ledger.Limits) *int { return &l.Digests }),
	limit("pending", 1<<16, "reads that wait for their step to end", func(l *ledger.Limits) *int { return &l.Pending }),
	limit("peers", 1<<12, "peers of an instance in coverage and layout checks", func(l *ledger.Limits) *int { return &l.Peers }),
	limit("samples", 1<<12, "GPUs and processes with a vram sample, per node", func(l *ledger.Limits) *int { return &l.Samples }),
}

// maxDuration is the longest time that may be set: longer ones are mistakes.
const maxDuration = 24 * time.Hour

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

// variable is the environment variable of a key: KVWITNESS_LIMITS_PAGES.
func (s setting) variable() string {
	return Prefix + strings.ToUpper(strings.ReplaceAll(s.name, ".", "_"))
}

// flag is the flag of a key, without its dashes: limits-past-owner.
func (s setting) flag() string { return strings.NewReplacer(".", "-", "_", "-").Replace(s.name) }
