package publish

import (
	"encoding/binary"
	"sync/atomic"
	"time"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/engine/lifecycle/stream"
	"github.com/kvwitness/kvwitness/engine/zmtp"
)

// wire is the output that publishes.
type wire struct {
	batch  stream.Builder
	rank   lifecycle.Opt[int64]
	topic  []byte
	number [8]byte
	next   uint64 // number of the next batch
	pub    *zmtp.Pub
	kept   *kept

	facts, batches atomic.Uint64
}

func (w *wire) say(f *lifecycle.Fact) {
	w.batch.Add(f)
	w.facts.Add(1)
	if w.batch.Full() {
		w.flush()
	}
}

// flush publishes the batch in hand, if there is one.
func (w *wire) flush() {
	if w.batch.Facts() == 0 {
		return
	}
	payload := w.batch.Finish(float64(time.Now().UnixMicro())/1e6, w.rank)
	binary.BigEndian.PutUint64(w.number[:], w.next)
	w.kept.keep(w.next, payload)
	w.pub.Publish(w.topic, w.number[:], payload)
	w.next++
	w.batches.Add(1)
}
