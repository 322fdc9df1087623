package ledger

import (
	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/sidecar/finding"
)

// partyID names a party; 0 is nobody.
type partyID uint32

// party is somebody whose data may lie in pages: it outlives its request for
// as long as a page refers to it, so that one can say whose data was exposed.
type party struct {
	req    *request // nil once the request is forgotten
	inst   string
	id     string
	domain lifecycle.Opt[string]
	pages  uint32 // owner and content fields that name it
}

// parties is a table with reuse. Its size is bounded by the requests and the
// pages that can name a party.
type parties struct {
	all  []party
	free []partyID
}

func (ps *parties) add(p party) partyID {
	if n := len(ps.free); n > 0 {
		id := ps.free[n-1]
		ps.free = ps.free[:n-1]
		ps.all[id] = p
		return id
	}
	if len(ps.all) == 0 {
		ps.all = append(ps.all, party{}) // nobody
	}
	ps.all = append(ps.all, p)
	return partyID(len(ps.all) - 1)
}

// drop takes n pages away from a party and forgets it with the last one.
func (ps *parties) drop(id partyID, n uint32) {
	if id == 0 {
		return
	}
	p := &ps.all[id]
	if p.pages -= n; p.pages == 0 && p.req == nil {
		*p = party{}
		ps.free = append(ps.free, id)
	}
}

// leave is called when the request of a party is forgotten.
func (ps *parties) leave(id partyID) {
	ps.all[id].req = nil
	ps.drop(id, 0)
}

func (ps *parties) show(id partyID) (finding.Party, bool) {
	if id == 0 {
		return finding.Party{}, false
	}
	p := &ps.all[id]
	return finding.Party{Inst: p.inst, Req: p.id, Domain: p.domain}, true
}

// moves counts, over a run of pages, how many leave one party for another, so
// that the table is touched once a run and not once a page.
type moves struct {
	ps *parties
	id partyID
	n  uint32
}

func (m *moves) leave(id partyID) {
	if id == m.id {
		m.n++
		return
	}
	m.flush()
	m.id, m.n = id, 1
}

func (m *moves) flush() {
	if m.n > 0 {
		m.ps.drop(m.id, m.n)
	}
	m.id, m.n = 0, 0
}

// come counts pages that get a party; arrive books them.
func (m *moves) come(id partyID) {
	if id != m.id {
		m.arrive()
		m.id = id
	}
	m.n++
}

func (m *moves) arrive() {
	if m.n > 0 {
		m.ps.all[m.id].pages += m.n
	}
	m.id, m.n = 0, 0
}
