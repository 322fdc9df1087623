package config

import (
	"maps"
	"net/url"
	"slices"
	"strings"
	"unicode"
)

// Evidence says where incidents are kept, and how many.
type Evidence struct {
	Dir    string // empty: they are not kept
	Bytes  int
	Days   int
	Memory int // bytes of facts that are remembered for them
}

// Alerts say who is told of incidents, and how people find them.
type Alerts struct {
	Managers  []string          // URLs of Alertmanagers
	Labels    map[string]string // of this node's target in Prometheus
	TokenFile string
	CAFile    string
	PageURL   string   // where people find this sidecar's pages; empty: where it listens
	Hosts     []string // names by which it may be asked for its pages
}

// Bounds of the lists.
const (
	maxManagers = 8
	maxLabels   = 16
	maxHosts    = 16
)

// list is a text of items, separated by commas.
func list(name, help, allowed string, most int, valid func(item string) bool, at func(*Config) *[]string) setting {
	return setting{
		name, help, "", allowed,
		func(c *Config, text string) error {
			*at(c) = nil
			for item := range strings.SplitSeq(text, ",") {
				if item = strings.TrimSpace(item); item == "" {
					continue
				}
				if !valid(item) || len(*at(c)) == most || slices.Contains(*at(c), item) {
					return errNotAllowed
				}
				*at(c) = append(*at(c), item)
			}
			return nil
		},
		func(c *Config) string { return strings.Join(*at(c), ",") },
	}
}

func alertmanagers() setting {
	return list("alertmanagers", "Alertmanagers to tell at once of evidence of wrong data, URL,…; empty: none",
		"a list of at most 8 http or https addresses, separated by commas", maxManagers, isHTTP, func(c *Config) *[]string { return &c.Sidecar.Alerts.Managers })
}

func hosts() setting {
	return list("hosts", "names by which this sidecar is asked for its pages, besides addresses and localhost",
		"a list of at most 16 host names, separated by commas", maxHosts,
		func(host string) bool { return nameAllowed(host) && !strings.Contains(host, "/") }, func(c *Config) *[]string { return &c.Sidecar.Alerts.Hosts })
}

func isHTTP(text string) bool {
	u, err := url.Parse(text)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" && u.User == nil && len(text) <= maxText
}

func pageURL() setting {
	return address(text("page_url", "", "address at which people reach this sidecar's pages, for links in alerts; empty: where it listens",
		func(c *Config) *string { return &c.Sidecar.Alerts.PageURL }))
}

func profiles() setting {
	return address(text("profiles", "", "address of a Pyroscope server for profiles of this process; empty: none are taken",
		func(c *Config) *string { return &c.Sidecar.Profiles }))
}

// address is a text that must be one, or empty.
func address(s setting) setting {
	s.allowed = "an http or https address, or nothing"
	set := s.set
	s.set = func(c *Config, text string) error {
		if text != "" && !isHTTP(text) {
			return errNotAllowed
		}
		return set(c, strings.TrimRight(text, "/"))
	}
	return s
}

// alertLabels are the labels that Prometheus gives to this node's target: an alert
// that is pushed and one of a rule are the same alert if their labels are.
func alertLabels() setting {
	return setting{
		"alert_labels", "labels of this node's target in Prometheus, NAME=VALUE,…: cluster, model, and node if it is called otherwise there", "",
		"a list of at most 16 NAME=VALUE, separated by commas; names of letters, digits and _",
		func(c *Config, text string) error {
			c.Sidecar.Alerts.Labels = map[string]string{}
			for item := range strings.SplitSeq(text, ",") {
				if item = strings.TrimSpace(item); item == "" {
					continue
				}
				name, value, said := strings.Cut(item, "=")
				_, twice := c.Sidecar.Alerts.Labels[name]
				if !said || twice || !labelName(name) || len(value) > maxName*4 || strings.ContainsFunc(value, unicode.IsControl) || len(c.Sidecar.Alerts.Labels) == maxLabels {
					return errNotAllowed
				}
				c.Sidecar.Alerts.Labels[name] = value
			}
			return nil
		},
		func(c *Config) string {
			var all []string
			for _, name := range slices.Sorted(maps.Keys(c.Sidecar.Alerts.Labels)) {
				all = append(all, name+"="+c.Sidecar.Alerts.Labels[name])
			}
			return strings.Join(all, ",")
		},
	}
}

func labelName(name string) bool {
	return name != "" && len(name) <= maxName && !strings.ContainsFunc(name, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_')
	}) && (name[0] < '0' || name[0] > '9')
}
