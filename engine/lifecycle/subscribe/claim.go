package subscribe

import (
	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/engine/lifecycle/stream"
)

// claims are the events that an engine can say of itself. The others are
// observations, or statements about a witness's own sight.
var claims = [...]lifecycle.Ev{
	lifecycle.PoolOpened, lifecycle.PoolClosed, lifecycle.RequestAdmitted, lifecycle.RequestRejected,
	lifecycle.RequestAborted, lifecycle.RequestFinished, lifecycle.PagesReserved, lifecycle.PagesShared,
	lifecycle.PagesWritten, lifecycle.PagesCopied, lifecycle.PagesRead, lifecycle.PagesCached,
	lifecycle.PagesReleased, lifecycle.PagesEvicted, lifecycle.TransferStarted, lifecycle.TransferCompleted,
	lifecycle.TransferDrained, lifecycle.PeerGone, lifecycle.PoolAudit, lifecycle.ContentDigest,
	lifecycle.Protection, lifecycle.Watermark, lifecycle.EvUnknown,
}

var claimed = func() (set uint64) {
	for _, ev := range claims {
		set |= 1 << ev
	}
	return set
}()

// decoded is a batch with its facts.
type decoded struct {
	seq   uint64
	epoch lifecycle.Opt[uint64]
	facts []*lifecycle.Fact
	bad   uint64 // facts that were dropped
}

// decode reads a batch and drops what an engine cannot say. Its epoch is that of
// its facts; a batch of two epochs keeps the facts of the first.
func (s *Subscriber) decode(m stream.Message) (d decoded, ok bool) {
	s.count.batches.Add(1)
	out := decoded{seq: m.Seq}
	b, err := stream.ParseBatch(m.Payload)
	if err != nil {
		s.count.facts.Add(1)
		s.lose(BadBatch, 1)
		return out, false
	}
	drop := func(l Loss) {
		out.bad++
		s.lose(l, 1)
	}
	b.Each(func(raw []byte) {
		s.count.facts.Add(1)
		f, err := s.dec.Decode(raw)
		switch {
		case err != nil:
			drop(BadFact)
		case f.Src != lifecycle.Engine || f.Inst != s.cfg.Instance || !f.Epoch.Has || out.epoch.Has && f.Epoch != out.epoch:
			drop(ForeignFact)
		case claimed>>f.Ev&1 == 0 || f.Ev == lifecycle.Watermark && f.Of != lifecycle.Engine:
			drop(NotAClaim)
		default:
			f.Node = s.cfg.Node
			out.epoch = f.Epoch
			out.facts = append(out.facts, f)
		}
	})
	return out, out.epoch.Has
}

func (s *Subscriber) lose(l Loss, n uint64) { s.count.lost[l].Add(n) }
