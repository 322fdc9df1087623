package publish

import (
	"github.com/kvwitness/kvwitness/engine/scheduler"
	"github.com/kvwitness/kvwitness/engine/zmtp"
)

// Stats counts since the start. What an engine told is Queued + Lost.
type Stats struct {
	Queued   uint64 // events taken
	Lost     uint64 // events that did not fit into the queue, or came after Close
	Waiting  int    // events in the queue; its limit is Identity.QueueEvents
	Withheld uint64 // domains that do not look like hashes

	// Ran and Stopped count the calls of Protected.
	Ran, Stopped [scheduler.NumProtections]uint64

	Facts   uint64 // published
	Batches uint64
	Kept    int // batches kept for replay; the limit is ReplayBatches
	Bytes   int // and their bytes; the limit is ReplayBytes

	Replays   uint64 // requests that were answered, or begun to be
	Snapshots uint64
	Refused   uint64 // requests of a peer that is being answered, or beyond MaxAnswers
	GivenUp   uint64 // answers that their reader did not take
	Malformed uint64 // requests that are none

	Recorded     uint64 // facts written to the trace
	NotRecorded  uint64 // facts that could not be
	RecordErrors uint64

	Events, Requests zmtp.Stats // of the two sockets
}

func (t *Teller) stats() (s Stats) {
	s.Waiting, s.Queued, s.Lost = t.q.load()
	s.Withheld = t.withheld.Load()
	for p := range s.Ran {
		s.Ran[p], s.Stopped[p] = t.ran[p].Load(), t.stopped[p].Load()
	}
	return s
}

func (r *recording) stats(s *Stats) {
	s.Recorded, s.NotRecorded, s.RecordErrors = r.written.Load(), r.lost.Load(), r.failures.Load()
}

// Stats returns the counts so far.
func (r *Recorder) Stats() Stats {
	s := r.stats()
	r.file.stats(&s)
	return s
}

// Stats returns the counts so far.
func (p *Publisher) Stats() Stats {
	s := p.stats()
	s.Facts, s.Batches = p.wire.facts.Load(), p.wire.batches.Load()
	s.Kept, s.Bytes = p.wire.kept.load()
	v := p.server
	s.Replays, s.Snapshots, s.Refused = v.replays.Load(), v.snapshots.Load(), v.refused.Load()
	s.GivenUp, s.Malformed = v.givenUp.Load(), v.malformed.Load()
	if p.file != nil {
		p.file.stats(&s)
	}
	s.Events, s.Requests = p.pub.Stats(), v.router.Stats()
	return s
}
