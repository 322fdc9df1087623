package publish

import (
	"context"
	"encoding/binary"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/engine/lifecycle/stream"
	"github.com/kvwitness/kvwitness/engine/zmtp"
)

const (
	// MaxAnswers bounds the peers that are answered side by side.
	MaxAnswers = 8
	// PatienceWithReader is how long a peer may take nothing of its answer before
	// the rest is dropped.
	PatienceWithReader = 10 * time.Second
	// retry is how long to wait for room in a peer's queue.
	retry = 2 * time.Millisecond
)

// errGivenUp ends an answer whose reader takes nothing.
var errGivenUp = errors.New("the peer takes nothing of its answer")

// server answers requests for replay and for snapshots.
type server struct {
	router *zmtp.Router
	kept   *kept
	take   func(*snapshot) bool // fills it between two batches; false: the end
	ctx    context.Context
	stop   context.CancelFunc
	wg     sync.WaitGroup

	mu   sync.Mutex
	busy map[string]bool // peers that are being answered

	one  sync.Mutex // a snapshot is large: one at a time
	snap snapshot

	replays, snapshots, refused, givenUp, malformed atomic.Uint64
}

func newServer(router *zmtp.Router, kept *kept, take func(*snapshot) bool) *server {
	s := &server{router: router, kept: kept, take: take, busy: map[string]bool{}}
	s.ctx, s.stop = context.WithCancel(context.Background())
	return s
}

// run serves until close.
func (s *server) run() {
	for {
		id, frames, err := s.router.Recv(s.ctx)
		if err != nil {
			s.wg.Wait()
			return
		}
		request, err := stream.ParseRequest(frames)
		if err != nil {
			s.malformed.Add(1)
			continue
		}
		if !s.admit(id) {
			s.refused.Add(1)
			continue
		}
		s.wg.Add(1)
		go func() {
			defer s.wg.Done()
			defer s.release(id)
			if err := s.answer(id, request); err != nil {
				s.givenUp.Add(1)
			}
		}()
	}
}

// admit lets one request a peer be answered at a time, and few peers. Who is not
// let in gets no answer, and asks again.
func (s *server) admit(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.busy[id] || len(s.busy) >= MaxAnswers {
		return false
	}
	s.busy[id] = true
	return true
}

func (s *server) release(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.busy, id)
}

func (s *server) answer(id string, r stream.Request) error {
	err := error(nil)
	if r.Snapshot {
		s.snapshots.Add(1)
		err = s.answerSnapshot(id)
	} else {
		s.replays.Add(1)
		err = s.answerReplay(id, r.From)
	}
	if err != nil {
		return err
	}
	return s.send(id, stream.End, nil)
}

func (s *server) answerReplay(id string, from uint64) error {
	var buf []byte
	for next := from; ; next++ {
		var ok bool
		if next, buf, ok = s.kept.from(next, buf); !ok {
			return nil
		}
		if err := s.send(id, next, buf); err != nil {
			return err
		}
	}
}

func (s *server) answerSnapshot(id string) error {
	s.one.Lock()
	defer s.one.Unlock()
	if !s.take(&s.snap) {
		return errGivenUp
	}
	var batch stream.Builder
	flush := func() error {
		payload := batch.Finish(float64(time.Now().UnixMicro())/1e6, lifecycle.Opt[int64]{})
		return s.send(id, s.snap.batch, payload)
	}
	err := s.snap.facts(func(f *lifecycle.Fact) error {
		batch.Add(f)
		if !batch.Full() {
			return nil
		}
		return flush()
	})
	if err == nil && batch.Facts() > 0 {
		err = flush()
	}
	return err
}

// send waits for room in the peer's queue, but not for long.
func (s *server) send(id string, seq uint64, payload []byte) error {
	number := binary.BigEndian.AppendUint64(make([]byte, 0, 8), seq)
	patience := time.Now().Add(PatienceWithReader)
	for {
		err := s.router.Send(id, nil, number, payload)
		if !errors.Is(err, zmtp.ErrQueueFull) {
			return err
		}
		if time.Now().After(patience) {
			return errGivenUp
		}
		select {
		case <-time.After(retry):
		case <-s.ctx.Done():
			return s.ctx.Err()
		}
	}
}

func (s *server) close() {
	s.stop()
	s.wg.Wait()
}
