package control

import (
	"fmt"
	"net/http"

	"github.com/kvwitness/kvwitness/engine/kvcache"
	"github.com/kvwitness/kvwitness/engine/pdwire"
	"github.com/kvwitness/kvwitness/engine/scheduler"
)

// maxRooms is how many rooms are remembered after they were named.
const maxRooms = 8192

// handedOver is a room whose pages were named to its writers.
type handedOver struct {
	room   scheduler.Room
	slot   kvcache.PageID
	prefix int                    // tokens
	peers  map[int]scheduler.Peer // by rank
}

// rooms remembers the last maxRooms.
type rooms struct {
	by    map[scheduler.Room]*handedOver
	byReq map[kvcache.Req]scheduler.Room
	order []scheduler.Room
}

func (r *rooms) add(a scheduler.SendTargets) *handedOver {
	if h := r.by[a.Room]; h != nil && h.slot == a.Slot {
		return h
	}
	if r.byReq == nil {
		r.byReq = map[kvcache.Req]scheduler.Room{}
	}
	if len(r.order) == maxRooms {
		delete(r.by, r.order[0])
		r.order = r.order[1:]
	}
	h := &handedOver{room: a.Room, slot: a.Slot, prefix: a.PrefixTokens, peers: map[int]scheduler.Peer{}}
	r.by[a.Room], r.byReq[a.Req] = h, a.Room
	r.order = append(r.order, a.Room)
	return h
}

// receive takes what prefills say.
func (d *Decode) receive() {
	for {
		frames, err := d.pull.Recv(d.ctx)
		if err != nil {
			return
		}
		m, err := pdwire.ParseBodies(frames)
		if err != nil {
			d.cfg.Log.Warn("control message refused", "err", err.Error())
			continue
		}
		switch m := m.(type) {
		case *pdwire.Status:
			d.status(m, pdwire.StatusReason(frames))
		case *pdwire.AbortAck:
			if m.Drained {
				_, peer := d.who(m.Room, m.PrefillRank)
				d.worker.Post(scheduler.Drained{Room: scheduler.Room(m.Room), Peer: peer})
			}
		}
	}
}

// who finds the rank that speaks of a room, and the room if it is known.
func (d *Decode) who(room int64, rank int) (*handedOver, scheduler.Peer) {
	d.mu.Lock()
	defer d.mu.Unlock()
	h := d.rooms.by[scheduler.Room(room)]
	if h != nil && h.peers[rank] != "" {
		return h, h.peers[rank]
	}
	return nil, scheduler.Peer(fmt.Sprintf("prefill rank %d", rank))
}

func (d *Decode) status(m *pdwire.Status, text string) {
	h, peer := d.who(m.Room, m.PrefillRank)
	e := scheduler.Completed{Room: scheduler.Room(m.Room), Peer: peer, Counted: true}
	switch m.Status {
	case pdwire.StatusFailed:
		e.Status, e.Reason = parseFailure(text)
	case pdwire.StatusSuccess:
		if h == nil {
			return // nothing was named, so nothing can be complete
		}
		if s := d.session(peer); s != nil && !d.cfg.Transfer.Counts() {
			s.arrivals.Sweep() // all that the writer put there before it said so
		}
		record := d.worker.Memory().Record(h.slot, m.PrefillRank)
		if record.First < 0 || int(record.First) >= d.worker.Config().Model.Size() {
			e.Status, e.Reason = http.StatusBadGateway, "the first token is not one of the vocabulary"
			break
		}
		e.OK, e.First = true, record.First
		e.Pages, e.Tokens, e.HasLength = parseLength(text)
	default:
		return
	}
	d.worker.Post(e)
}
