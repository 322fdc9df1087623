package worker

import (
	"context"
	"fmt"
	"sync"

	"github.com/kvwitness/kvwitness/engine/kvcache"
	"github.com/kvwitness/kvwitness/engine/model"
	"github.com/kvwitness/kvwitness/engine/scheduler"
)

// Request is one request for an answer.
type Request struct {
	Domain      kvcache.Domain
	Prompt      []model.Token
	MaxTokens   int
	Temperature float64
	Seed        uint64
	Stops       [][]byte
	// Room and Peers of a handoff; not looked at in a unified engine.
	Room      scheduler.Room
	Peers     []scheduler.Peer
	Synthetic bool
	Drill     scheduler.Drill
}

// End is how an answer ended.
type End struct {
	Status       int // of HTTP
	Finish       scheduler.Finish
	Err          error
	AnswerTokens int
}

// Answer is the text of a request as it comes.
type Answer struct {
	Req     kvcache.Req
	request *Request
	words   model.Vocabulary
	sampler *model.Sampler

	mu      sync.Mutex
	decider *model.Answer
	next    []byte // decided by the token that the scheduler has not taken in yet
	held    []byte // may yet begin a stop string
	text    []byte // to be read
	tokens  int
	first   bool // the first token came from a peer, and is in
	stops   bool // as it was judged
	end     *End
	bell    chan struct{} // has room for one
}

func newAnswer(words model.Vocabulary, req kvcache.Req, r *Request) *Answer {
	return &Answer{
		Req: req, request: r, words: words, sampler: model.NewSampler(r.Temperature, r.Seed), bell: make(chan struct{}, 1),
	}
}

// Read waits for more text, or the end. It is for one reader.
func (a *Answer) Read(ctx context.Context) (text []byte, end *End, err error) {
	for {
		a.mu.Lock()
		text, end = a.text, a.end
		a.text = nil
		a.mu.Unlock()
		if len(text) > 0 || end != nil {
			return text, end, nil
		}
		select {
		case <-a.bell:
		case <-ctx.Done():
			return nil, nil, fmt.Errorf("waiting for an answer: %w", ctx.Err())
		}
	}
}

func (a *Answer) ring() {
	select {
	case a.bell <- struct{}{}:
	default:
	}
}

// push takes a token that was chosen, and says whether it ends the answer. Its
// text stays back until emit.
func (a *Answer) push(t model.Token) (stop bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.next = append(a.next, a.decider.Push(t)...)
	stop = a.decider.Finish() == model.FinishStop
	if stop {
		a.held = a.held[:0]
		return stop
	}
	a.held = append(a.held, a.words.Text(t)...)
	a.held = a.held[min(len(a.next), len(a.held)):]
	return stop
}

// pushFirst is push for the token that another process chose; several peers may
// report it.
func (a *Answer) pushFirst(t model.Token) (stop bool) {
	if !a.first {
		a.first, a.stops = true, a.push(t)
	}
	return a.stops
}

// emit hands out the text of the token that the scheduler has just taken in.
func (a *Answer) emit() {
	a.mu.Lock()
	a.tokens++
	a.text = append(a.text, a.next...)
	a.next = nil
	a.mu.Unlock()
	a.ring()
}

func (a *Answer) finish(o scheduler.Outcome) {
	a.mu.Lock()
	if o.Finish == scheduler.FinishLength {
		a.text = append(a.text, a.held...)
	}
	a.end = &End{Status: o.Status, Finish: o.Finish, Err: o.Err, AnswerTokens: a.tokens}
	a.mu.Unlock()
	a.ring()
}
