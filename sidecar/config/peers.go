package config

import (
	"net"
	"slices"
	"strconv"
	"strings"
	"time"
)

// MaxPeers is how many other nodes one sidecar takes facts from: their names are label
// values, and so bounded.
const MaxPeers = 64

// Peers are the sidecars of other nodes.
type Peers struct {
	All       []Peer
	Listen    string // HOST:PORT; empty: nobody is served
	CertFile  string
	KeyFile   string
	CAFile    string
	TokenFile string // instead of certificates, on loopback
	Patience  time.Duration
}

// Peer is the sidecar of another node, from which facts are taken.
type Peer struct {
	Name    string // in metrics and the log
	Address string // HOST:PORT
}

// peersKey is the key that lists them.
const peersKey = "peers"

func peers() setting {
	return setting{
		peersKey, "sidecars of other nodes whose engines hand to those of this one or take from them, NAME=HOST:PORT,…", "",
		"a list of at most 64 NAME=HOST:PORT, separated by commas; names of a-z, 0-9, . _ / and -",
		func(c *Config, text string) (err error) {
			c.Sidecar.Peers.All, err = parsePeers(text)
			return err
		},
		func(c *Config) string {
			var all []string
			for _, p := range c.Sidecar.Peers.All {
				all = append(all, p.Name+"="+p.Address)
			}
			return strings.Join(all, ",")
		},
	}
}

func parsePeers(text string) (all []Peer, err error) {
	for item := range strings.SplitSeq(text, ",") {
		if item = strings.TrimSpace(item); item == "" {
			continue
		}
		name, address, _ := strings.Cut(item, "=")
		known := slices.ContainsFunc(all, func(p Peer) bool { return p.Name == name || p.Address == address })
		if !nameAllowed(name) || !isHostPort(address) || known || len(all) == MaxPeers {
			return nil, errNotAllowed
		}
		all = append(all, Peer{name, address})
	}
	return all, nil
}

func isHostPort(text string) bool {
	host, port, err := net.SplitHostPort(text)
	n, numErr := strconv.ParseUint(port, 10, 16)
	return err == nil && numErr == nil && n > 0 && host != "" && len(text) <= maxText && !strings.ContainsAny(host, " /")
}
