package config

import (
	"time"

	"github.com/kvwitness/kvwitness/engine/router"
)

// Router is what `kvengine router` can be told.
type Router struct {
	router.Config
	Host        string
	Port        int
	StopTimeout time.Duration
	Log         Log
}

// Table of the settings, each of which writes into r.
func (r *Router) Table() Table {
	return append(Table{
		text("host", "127.0.0.1", "address to listen at", &r.Host),
		number("port", 8000, 0, maxPort, "port to listen at; 0: any", &r.Port),
		list("prefill", "URLs of the prefills' APIs", &r.Prefills),
		list("decode", "URLs of the decodes' APIs", &r.Decodes),
		duration("stop-timeout", "30s", "how long a graceful stop may take", &r.StopTimeout),
	}, r.Log.table()...)
}

// Check refuses an address that strangers may reach: a router asks for no key
// itself, the engines behind it do.
func (r *Router) Check() error { return private(r.Host, false, false) }
