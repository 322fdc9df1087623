package api

import (
	"net/http"
	"time"
)

// Bounds of a client's connection: how long it may take to say what it asks for, and
// may say nothing between two requests.
const (
	HeaderTimeout  = 10 * time.Second
	BodyTimeout    = 60 * time.Second // header and body together
	IdleTimeout    = 2 * time.Minute
	MaxHeaderBytes = 64 << 10
)

// Web is a server of h whose clients are held to these bounds. How long an answer
// takes is not bounded by them.
func Web(h http.Handler) *http.Server {
	return &http.Server{
		Handler: h, ReadHeaderTimeout: HeaderTimeout, ReadTimeout: BodyTimeout, IdleTimeout: IdleTimeout, MaxHeaderBytes: MaxHeaderBytes,
	}
}
