package sim

import "github.com/kvwitness/kvwitness/engine/lifecycle"

// splitAt is the longest single write of a transfer, in bytes.
const splitAt = 64 << 10

// extent is one write: so many bytes from an address on the sender to one on
// the receiver.
type extent struct {
	to, from uint64
	bytes    uint64
}

// extents are the writes of a transfer, cut as a transfer engine cuts them.
func (t *transfer) extents() []extent {
	dst, src := t.rcv.in.pool(t.pool), t.snd.in.pool(t.pool)
	var list []extent
	if dst.spec.Path == lifecycle.PathStaged {
		list = t.staged(dst, src)
	} else {
		for i, to := range dst.spec.Regions {
			var from lifecycle.Region
			if i < len(src.spec.Regions) {
				from = src.spec.Regions[i]
			}
			list = append(list, t.cut(to, from)...)
		}
	}
	s := t.r.s
	if s.chance(s.Mix.Scatter) {
		list = s.scatter(list)
		s.hard(1, "bytes in small pieces in any order")
	}
	return list
}

// cut covers one region: the stripe of each page that this sender writes,
// neighbours joined, then split at the longest write.
func (t *transfer) cut(to, from lifecycle.Region) (list []extent) {
	size := min(to.Bytes, from.Bytes) // a stripe is as long as the shorter page
	if from.Bytes == 0 {
		size = to.Bytes
	}
	var toOff, fromOff uint64
	if to.Bytes > size {
		toOff = size * uint64(t.snd.in.rank)
	}
	if from.Bytes > size {
		fromOff = size * uint64(t.rcv.in.rank)
	}
	for i := range t.dst[:len(t.dst)-t.lost] {
		e := extent{to.Base + uint64(t.dst[i])*to.Stride + toOff, from.Base + uint64(t.src[i])*from.Stride + fromOff, size}
		if n := len(list); n > 0 && list[n-1].to+list[n-1].bytes == e.to && (!t.fromAddr || list[n-1].from+list[n-1].bytes == e.from) {
			list[n-1].bytes += size
			t.r.s.hard(1, "one write over several pages")
			continue
		}
		list = append(list, e)
	}
	return split(list)
}

func split(list []extent) (out []extent) {
	for _, e := range list {
		for e.bytes > splitAt {
			out = append(out, extent{e.to, e.from, splitAt})
			e.to, e.from, e.bytes = e.to+splitAt, e.from+splitAt, e.bytes-splitAt
		}
		out = append(out, e)
	}
	return out
}

// staged puts all the bytes that are owed one after the other into staging
// memory.
func (t *transfer) staged(dst, src *pool) []extent {
	owed := uint64(0)
	for i, region := range src.spec.Regions {
		owed += min(region.Bytes, dst.spec.Regions[i].Bytes) * uint64(len(t.dst)-t.lost)
	}
	ring := uint64(dst.spec.Pages) << 20
	start := dst.spec.Regions[len(dst.spec.Regions)-1].Base
	if dst.staging+owed > start+ring {
		dst.staging = start
	}
	e := extent{dst.staging, 0, owed}
	dst.staging += owed
	t.r.s.hard(1, "a staged transfer")
	return split([]extent{e})
}

// scatter cuts writes further and shuffles them.
func (s *Sim) scatter(list []extent) (out []extent) {
	for _, e := range list {
		for e.bytes > 64 && len(out) < 40 && s.chance(0.6) {
			n := uint64(s.between(1, int64(e.bytes)-1))
			out = append(out, extent{e.to, e.from, n})
			e.to, e.from, e.bytes = e.to+n, e.from+n, e.bytes-n
		}
		out = append(out, e)
	}
	s.rng.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	return out
}

// write makes one write seen, with its retries.
func (t *transfer) write(e extent) {
	s := t.r.s
	if s.chance(s.Mix.Errors) {
		if t.posted {
			t.see(e, lifecycle.Posted)
		}
		t.see(e, lifecycle.Errored)
		s.hard(1, "a write that failed and was made again")
	}
	if t.posted {
		t.see(e, lifecycle.Posted)
		s.hard(1, "bytes seen when posted")
		if s.chance(0.5) {
			if t.xferOnByte && !t.fromAddr && s.xferUnique && !t.rcv.in.muted && t.rcv.in.pool(t.pool).staging == 0 && s.chance(0.5) {
				t.unended = append(t.unended, e)
			}
			return
		}
	}
	t.see(e, pick(s, []lifecycle.Outcome{lifecycle.OutcomeNone, lifecycle.OK}))
	if s.chance(s.Mix.Retries) && t.rcv.in.pool(t.pool).staging == 0 { // a ring has equal addresses without retries
		t.see(e, lifecycle.OK)
		s.hard(1, "the same bytes twice")
	}
}

// endLate makes writes be seen to end when their transfer is long over: the sender looks
// at its queue when the receiver has been told already.
func (t *transfer) endLate() {
	s := t.r.s
	for _, e := range t.unended {
		s.hard(1, "a write that was seen to end after its transfer")
		s.spawn(s.now+s.between(2*hop, 25*ms), func(*proc) { t.see(e, lifecycle.OK) })
	}
	t.unended = nil
}

// see tells what a sidecar saw of a write: the sender's for a push, the
// receiver's for a pull.
func (t *transfer) see(e extent, status lifecycle.Outcome) {
	if !t.rcv.alive() || !t.snd.alive() {
		return
	}
	f := lifecycle.Fact{Ev: lifecycle.BytesMoved, Addr: e.to, Bytes: e.bytes, From: t.snd.in.name, Op: lifecycle.Write, Outcome: status}
	at := t.snd.in.node
	if t.op == lifecycle.Pull {
		f.Op, at = lifecycle.Read, t.rcv.in.node
	}
	t.attribution()
	if t.fromAddr {
		f.FromAddr = lifecycle.Some(e.from)
	}
	if t.xferOnByte {
		f.Xfer = t.xfer
	}
	if t.noFrom {
		f.From, f.FromAddr = "", lifecycle.Opt[uint64]{}
	}
	t.rcv.in.tell(t.rcv.in.sight, at, f)
}

// attribution counts how a judge must find out whose write it is.
func (t *transfer) attribution() {
	s := t.r.s
	switch {
	case t.xferOnByte:
		s.hard(8, "by the transfer that the bytes name")
	case t.fromAddr:
		s.hard(8, "by the source address")
	case t.noFrom:
		s.hard(8, "by the page alone")
	default:
		s.hard(8, "by the one open transfer of the peer")
	}
	if s.sameAddresses {
		s.hard(12, "instances with the same virtual addresses")
	}
}
