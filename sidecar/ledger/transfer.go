package ledger

import "github.com/kvwitness/kvwitness/engine/lifecycle"

// transferID names a transfer within its room. Both sides are one record.
type transferID struct {
	recv, send *instance
	xfer       string
}

// transfer moves pages of a room from one instance to another.
type transfer struct {
	transferID
	slot uint32 // its place in Ledger.transfers
	room *room
	into *handoff

	pull      bool
	recvTick  uint64 // when the receiver started it, 0 if it did not say
	sendTick  uint64
	outcome   lifecycle.Outcome
	gone      bool // its peer is gone
	drained   bool
	endedTick uint64

	targets []named // on the receiver
	sources []named // on the sender
	posted  int64   // bytes posted and not yet completed
	staged  map[*pool]stagedBytes
	doubts  []doubt // what its posts break if they land
}

// named are pages that a transfer names, of the generations of that tick.
type named struct {
	pool         *pool
	first, count uint32
	tick         uint64
}

// began is the tick of its first transfer_started, by either side.
func (t *transfer) began() uint64 {
	if t.recvTick == 0 || t.sendTick != 0 && t.sendTick < t.recvTick {
		return t.sendTick
	}
	return t.recvTick
}

// peerOf is the other side.
func (t *transfer) peerOf(inst *instance) *instance {
	if inst == t.recv {
		return t.send
	}
	return t.recv
}

// open reports whether the transfer was started and is not over.
func (t *transfer) open() bool {
	return (t.recvTick != 0 || t.sendTick != 0) && t.outcome == lifecycle.OutcomeNone && !t.gone
}

// running reports whether a write of it can still arrive (hard case 7).
func (t *transfer) running() bool { return !t.drained }

// transfer finds the record that both sides share, or begins it. nil: the room
// has too many.
func (l *Ledger) transfer(rm *room, recv, send *instance, xfer string) *transfer {
	id := transferID{recv, send, xfer}
	if t := rm.find(id); t != nil {
		return t
	}
	if len(rm.transfers) >= l.cfg.Limits.Transfers {
		l.stats.Forgotten.Transfers++
		unsee(rm, nil, "the room has more transfers than are remembered")
		return nil
	}
	t := &transfer{transferID: id, room: rm}
	l.keep(t)
	rm.transfers = append(rm.transfers, t)
	recv.running[t] = struct{}{}
	send.running[t] = struct{}{}
	t.into = l.handoff(rm, recv)
	t.into.transfers = append(t.into.transfers, t)
	return t
}

// keep gives a transfer a place in the table that activities refer to.
func (l *Ledger) keep(t *transfer) {
	if n := len(l.freeSlots); n > 0 {
		t.slot = l.freeSlots[n-1]
		l.freeSlots = l.freeSlots[:n-1]
		l.transfers[t.slot] = t
		return
	}
	t.slot = uint32(len(l.transfers))
	l.transfers = append(l.transfers, t)
}

// told finds the transfer that a completion or a drain speaks of, whichever
// side was told.
func (rm *room) told(inst, peer *instance, xfer string) *transfer {
	if t := rm.find(transferID{inst, peer, xfer}); t != nil {
		return t
	}
	return rm.find(transferID{peer, inst, xfer})
}

// of is the transfer of that name that an instance has a side of, or nil.
func (rm *room) of(inst *instance, xfer string) *transfer {
	for i := len(rm.transfers) - 1; i >= 0; i-- {
		if t := rm.transfers[i]; t.xfer == xfer && (t.send == inst || t.recv == inst) {
			return t
		}
	}
	return nil
}

// find looks from the end: what is spoken of was mostly begun last.
func (rm *room) find(id transferID) *transfer {
	for i := len(rm.transfers) - 1; i >= 0; i-- {
		if t := rm.transfers[i]; t.recv == id.recv && t.send == id.send && t.xfer == id.xfer {
			return t
		}
	}
	return nil
}

// drain ends the time in which writes of the transfer may arrive.
func (l *Ledger) drain(t *transfer) {
	if !t.drained {
		t.drained = true
		delete(t.recv.running, t)
		delete(t.send.running, t)
		l.dropDoubts(t)
		l.retire(t.room)
	}
}

// over notes that the transfer is over; the handoffs of its room may now settle.
func (l *Ledger) over(t *transfer) {
	t.endedTick = l.tick
	t.room.lastEnd = l.now
	for _, h := range t.room.handoffs {
		l.settleLater(h)
	}
}
