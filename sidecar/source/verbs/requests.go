package verbs

// MaxOutstanding bounds the extents of a queue pair that are remembered until they
// complete.
const MaxOutstanding = 1 << 14

// requests are what a queue pair was handed and has not completed. Reliable queue
// pairs complete in order.
type requests struct {
	posted    uint64 // requests
	completed uint64 // of these, with a completion
	waiting   []outstanding
	lost      bool // more were outstanding than are remembered
}

type outstanding struct {
	Extent
	left uint32 // completions that it still waits for
}

// Post takes in what a queue pair was handed. It is remembered where its
// completions are seen.
func (ps *Paths) Post(c *Pair, p *Posted) {
	r := &c.requests
	r.posted += uint64(p.Requests)
	on := ps.processes[c.Process].contexts[c.Context]
	if on == nil || !on.ends || r.lost {
		return
	}
	for _, e := range p.Extents {
		if len(r.waiting) >= MaxOutstanding {
			ps.forgotten++
			r.waiting, r.lost = nil, true
			return
		}
		left := uint32(0)
		if e.Signaled {
			left = e.Requests
		}
		r.waiting = append(r.waiting, outstanding{e, left})
	}
}

// Completion statuses and opcodes (enum ibv_wc_status, ibv_wc_opcode).
const (
	statusSuccess = 0
	wcWrite       = 1
	wcRead        = 2
	wcReceive     = 1 << 7 // this bit: of what arrived
)

// Complete takes in completions of a process: ended is called for each extent that
// is over, and broken where what completes cannot be told from what was posted.
func (ps *Paths) Complete(m *Completed, ended func(*Pair, Extent, bool), broken func(c *Pair, why string)) {
	p := ps.processes[m.PID]
	if p == nil {
		return
	}
	for i := range m.All {
		w := &m.All[i]
		c := p.numbered[numbered{m.Context, w.Number}]
		switch {
		case c == nil:
		case w.Status != statusSuccess:
			c.requests.fail(func(e Extent) { ended(c, e, false) }, func(why string) { broken(c, why) })
		case w.Opcode&wcReceive == 0:
			c.requests.completed++
			if c.requests.completed > c.requests.posted {
				ps.unposted(p, c)
				broken(c, "requests completed that nobody saw posted")
				continue
			}
			if w.Opcode == wcWrite || w.Opcode == wcRead {
				c.requests.succeed(func(e Extent) { ended(c, e, true) })
			}
		}
	}
}

// unposted: a completion without a post. A queue pair that was connected before its
// provider was attached to may have posted in between; else the process has a way
// around post_send.
func (ps *Paths) unposted(p *process, c *Pair) {
	r := &c.requests
	r.posted, r.waiting = r.completed, nil
	if on := p.contexts[c.Context]; on != nil && on.since <= c.at && on.unseen == "" {
		p.around = "requests completed that nobody saw posted: it has a way around post_send"
	}
}

// succeed takes one successful completion: what was posted without one before it is
// over too.
func (r *requests) succeed(ended func(Extent)) {
	for len(r.waiting) > 0 && r.waiting[0].left == 0 {
		ended(r.waiting[0].Extent)
		r.waiting = r.waiting[1:]
	}
	if len(r.waiting) == 0 {
		return
	}
	if r.waiting[0].left--; r.waiting[0].left > 0 {
		return
	}
	// Further scatter entries of the same request begin none.
	for first := true; len(r.waiting) > 0 && (first || r.waiting[0].Requests == 0); first = false {
		ended(r.waiting[0].Extent)
		r.waiting = r.waiting[1:]
	}
}

// fail takes a failed one: the queue pair flushes all that it still has. Of an
// extent of several requests some of which succeeded, and of one without
// completions, it is not known which bytes are there.
func (r *requests) fail(ended func(Extent), broken func(string)) {
	for _, e := range r.waiting {
		if e.left != e.Requests {
			broken("requests failed of which some may have been done")
			continue
		}
		ended(e.Extent)
	}
	r.waiting = nil
}
