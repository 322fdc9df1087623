package proven

import (
	"net"
	"strconv"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
	wire "github.com/kvwitness/kvwitness/engine/pdwire"
	"github.com/kvwitness/kvwitness/sidecar/source/socket"
)

// statusFailed is the status of a reply that failed as a whole.
const statusFailed = 2

// vllm takes in a message of vLLM's Mooncake connector: a request to push, or the
// answer, which goes the other way over the same connection.
func (s *State) vllm(h *heard, body []byte) {
	back := socket.Flow{NetNS: h.Flow.NetNS, From: h.Flow.To, To: h.Flow.From}
	if l := s.asked[back]; l != nil {
		reply, err := wire.ParseVLLMReply(body)
		if err != nil {
			s.unread("a reply to "+l.to.name, err)
			return
		}
		s.runsIn(l.from, h.sender())
		s.runsIn(l.to, h.receiver())
		if !h.again {
			s.reply(l, reply)
		}
		return
	}
	t, err := wire.ParseVLLMTransfer(body)
	if err != nil {
		s.unread("a control message", err)
		return
	}
	s.push(h, t)
}

// push: decode names the blocks that prefill shall write, and where they lie.
func (s *State) push(h *heard, t *wire.VLLMTransfer) {
	to := s.instance(net.JoinHostPort(t.Hostname, strconv.Itoa(t.Port)))
	from := s.instance(h.Flow.To.String())
	l := s.link(to, from)
	if l == nil {
		return
	}
	s.runsIn(to, h.sender())
	s.runsIn(from, h.receiver())
	l.goesTo(to.name)
	if len(s.asked) >= MaxFlows {
		s.stats.Forgotten += uint64(len(s.asked))
		clear(s.asked)
	}
	s.asked[h.Flow] = l
	if h.again {
		return
	}
	groups := 0
	for _, r := range t.Requests {
		groups = max(groups, len(r.Groups))
	}
	pools, err := ofVLLM(t, groups)
	if err != nil {
		s.unread("a request to push to "+to.name, err)
		return
	}
	s.registered(to, from, pools, false)
	for _, r := range t.Requests {
		s.pushed(l, &r)
	}
}

// pushed is one request of them. The answer names it by its id.
func (s *State) pushed(l *link, r *wire.VLLMRequest) {
	for group, blocks := range r.Groups {
		pages, ok := runs(blocks)
		if !ok || len(r.ID) > lifecycle.MaxID {
			s.unread("a request to push to "+l.to.name, errNoPages)
			return
		}
		s.started(l, r.ID, groupPool(int64(group)), pages, false)
	}
}

func (s *State) reply(l *link, m *wire.VLLMReply) {
	said := func(ids []string, how lifecycle.Outcome) {
		for _, id := range ids {
			r := s.rooms[roomKey{id, l.to.name}]
			if r == nil {
				s.stats.Unplaced++
				continue
			}
			s.completed(r, id, l.from, how)
		}
	}
	said(m.OK, lifecycle.OK)
	said(m.Failed, lifecycle.Failed)
	if m.Status == statusFailed && len(m.OK)+len(m.Failed) == 0 {
		s.stats.Unplaced++ // it failed, and does not say what
	}
}
