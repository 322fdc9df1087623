package scheduler

import (
	"errors"
	"fmt"

	"github.com/kvwitness/kvwitness/engine/kvcache"
)

// Finish says how an answer ended.
type Finish uint8

const (
	FinishStop Finish = iota
	FinishLength
	FinishAbort
	FinishError
)

func (f Finish) String() string { return [...]string{"stop", "length", "abort", "error"}[f] }

// Outcome of a request. Status is that of HTTP, 499 for a client that left.
type Outcome struct {
	Status int
	Finish Finish
	Err    error
	// rejected: it should never have been admitted.
	rejected bool
}

// Reasons for a refusal or a failure. Errors in actions wrap one of them.
var (
	ErrOverLong     = errors.New("the prompt is longer than the context allows: shorten it")
	ErrPoolTooSmall = errors.New("the prompt is longer than the KV pool can hold: shorten it")
	ErrQueueFull    = errors.New("the queue is full: retry later")
	ErrStopping     = errors.New("the engine is stopping: use another")
	ErrMalformed    = errors.New("the request cannot be served as it is")
	ErrDuplicate    = errors.New("the request or room is known already")
	ErrTimeout      = errors.New("it took too long")
	ErrAborted      = errors.New("the request was aborted")
	ErrPeer         = errors.New("the other half of the request failed")
	ErrShortHandoff = errors.New("less arrived than was owed: the pages are not used")
	ErrDigest       = errors.New("the bytes that arrived are not those that were sent: the pages are not used")
	ErrPageTag      = errors.New("a page was not written for this request: the answer is withheld")
	ErrForward      = errors.New("the forward pass failed")
)

// state is the queue that a request is in.
type state uint8

const (
	stBootstrap state = iota // prefill: waits for decode's pages
	stPrealloc               // decode: waits for pages
	stTransfer               // decode: waits for its writers
	stDigest                 // decode: the digest is being compared
	stWaiting                // holds nothing, waits for a place in the batch
	stRunning                // in the batch
	stInflight               // prefill: computed, being sent
	stLate                   // prefill: ended, with a chunk still to come (a drill)
	numStates
)

func (s state) String() string {
	return [...]string{"bootstrap", "prealloc", "transfer", "digest", "waiting", "running", "inflight", "late"}[s]
}

// request is one request from Submit to its answer.
type request struct {
	info   Info
	order  uint64 // of arrival
	state  state
	since  int64 // when it last made progress
	prot   Protections
	fault  Drill
	tokens []int32 // the prompt, then the answer
	prompt int     // how many of them are the prompt
	maxNew int
	// admitted: it has passed the doors and may hold pages and metadata, so it can
	// only end by the way that gives them back.
	admitted bool
	// Two marks, and the incident lies between them: toFinish is the wish to end,
	// finished that it has.
	toFinish *Outcome
	finished *Outcome
	endSaid  bool // that it was rejected or aborted
	// cut: this side ends the handoff without telling the peers (a drill).
	cut bool

	kv, aux   *kvcache.Table
	computed  int // tokens whose keys and values are in the pages
	inForward bool
	first     int32 // the first token of the answer, which prefill chose
	firstEnds bool
	withheld  bool    // decode: first is not told before the pages were read
	handoffAt int64   // decode: when the writers were told of the pages
	arrived   []int32 // decode: tokens that every writer has put into each target
	links     []*link
}

// link is one peer of a handoff.
type link struct {
	peer Peer
	xfer kvcache.Xfer // open, 0 for none
	told bool         // the end of the room has been said, by us or by the peer

	// prefill
	target *Targets
	sent   int  // tokens handed to the transport, from the start of the prompt
	done   bool // all of it has been sent, or has come

	// decode: tokens arrived, by entry of the pages sent as targets
	got []int32
}

func (r *request) bypass() (b kvcache.Bypass) {
	for p, flag := range map[Protection]kvcache.Bypass{
		DrainBeforeRelease: kvcache.BypassDrain, SingleRelease: kvcache.BypassSingle,
		WrittenFirst: kvcache.BypassWritten, PageTags: kvcache.BypassTags,
	} {
		if !r.prot[p] {
			b |= flag
		}
	}
	return b
}

// keyDomain is the domain that the prefix cache is asked under.
func (r *request) keyDomain() kvcache.Domain {
	if !r.prot[DomainInKey] {
		return ""
	}
	return r.info.Domain
}

func (r *request) left() int { return len(r.tokens) - r.computed }

// ends says whether the answer is over with the token that is withheld.
func (r *request) ends() bool { return r.withheld && (r.firstEnds || r.answered() >= r.maxNew) }

func (r *request) answered() int { return len(r.tokens) - r.prompt }

func (r *request) link(p Peer) *link {
	for _, l := range r.links {
		if l.peer == p {
			return l
		}
	}
	return nil
}

func failed(status int, err error, format string, args ...any) *Outcome {
	return &Outcome{Status: status, Finish: FinishError, Err: fmt.Errorf(format+": %w", append(args, err)...)}
}

func aborted(reason string) *Outcome {
	return &Outcome{Status: 499, Finish: FinishAbort, Err: fmt.Errorf("%s: %w", reason, ErrAborted)}
}
