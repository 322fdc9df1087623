package engineinfo

import (
	"time"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
)

// Kind is which engine it is.
type Kind uint8

// The engines that are known.
const (
	UnknownKind Kind = iota
	Kvengine
	SGLang
	VLLM
	numKind
)

var kindNames = [numKind]string{"unknown", "kvengine", "sglang", "vllm"}

func (k Kind) String() string { return kindNames[k] }

// Role is what a process does of a request.
type Role uint8

// The roles.
const (
	UnknownRole Role = iota
	Unified
	Prefill
	Decode
	numRole
)

var roleNames = [numRole]string{"unknown", "unified", "prefill", "decode"}

func (r Role) String() string { return roleNames[r] }

// Endpoint is one that is asked.
type Endpoint uint8

// The endpoints that are asked.
const (
	ServerInfo Endpoint = iota
	Models
	Metrics
	NumEndpoint
)

// paths of each endpoint: the later ones are tried where the first is not there. vLLM
// has its version alone.
var paths = [NumEndpoint][]string{{"server_info", "get_server_info", "version"}, {"v1/models"}, {"metrics"}}

func (e Endpoint) String() string { return paths[e][0] }

// SubPool is a pool beside the one that holds every token.
type SubPool struct {
	Name   string // swa
	Tokens int64  // that it holds, of the rank with the least
}

// Info is what an engine says of itself.
type Info struct {
	Kind    Kind
	Version string
	Role    Role

	// Pool is how many tokens requests can have in the pool that owes every token,
	// of the rank with the least; what is never handed out is taken off.
	Pool lifecycle.Opt[int64]
	// Null is what was taken off, in tokens.
	Null       int64
	Sub        []SubPool
	PageTokens lifecycle.Opt[int64]
	Context    lifecycle.Opt[int64] // as the engine was told
	Effective  lifecycle.Opt[int64] // the longest prompt and answer that it takes
	MaxInput   lifecycle.Opt[int64] // the longest prompt
	DType      string               // of the cache, as the engine spells it
	Ranks      int                  // data-parallel ones, 0: not said
	Started    lifecycle.Opt[int64] // seconds since 1970
	Drill      string               // kvengine: the one that is switched on

	Protections [NumProtection]Protection

	Preempted lifecycle.Opt[int64] // requests that gave up their pages, since the start
	Held      lifecycle.Opt[int64] // pages of kvengine's, or tokens of SGLang's and vLLM's, that requests hold now

	// Instance and Events are kvengine's: who it is in its lifecycle stream, and
	// where that is.
	Instance, Events string
}

// Longest is the longest context that the engine says it takes, declared or served.
func (i *Info) Longest() (c lifecycle.Opt[int64]) {
	for _, said := range []lifecycle.Opt[int64]{i.Context, i.Effective} {
		if said.Has && said.V > c.Or(-1) {
			c = said
		}
	}
	return c
}

// Poll is what an engine said last, and how often it answered.
type Poll struct {
	Info
	At         time.Time // of the last good answer of any endpoint
	Fresh      bool      // each endpoint that ever answered did so when asked last
	OK, Failed [NumEndpoint]uint64
	Errors     [NumEndpoint]error // of the last question

	server  serverInfo
	models  models
	metrics metrics
}

// tokens is a number of tokens that can be.
func tokens(n int64, said bool) lifecycle.Opt[int64] {
	if !said || n < 0 || n > lifecycle.MaxTokens {
		return lifecycle.Opt[int64]{}
	}
	return lifecycle.Some(n)
}

// least is the smaller of what was said.
func least(a, b lifecycle.Opt[int64]) lifecycle.Opt[int64] {
	if !a.Has || b.Has && b.V < a.V {
		return b
	}
	return a
}
