package production

import (
	"fmt"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
)

// request is one request on its way. Its two halves have the same id, as in
// SGLang.
type request struct {
	n           int
	id, room    string
	xfer        string
	tenant      int
	prompt      int64
	decode      *engine // or the unified one
	prefill     *engine
	there, here lifecycle.Runs // pages on prefill; on decode
	prefix      lifecycle.Runs // shared
	steps       []step
	at          int64
}

// step says facts and returns how long the request then waits; done is false
// if it could not be taken for want of pages.
type step func(g *Generator, r *request) (wait int64, done bool)

// Of 1,000 requests, 300 run on a unified engine and one is too long for prefill
// and refused at the door, as it should be. The rest are handoffs.
const (
	unifiedShare = 300
	refusedShare = 1
)

// The steps of each kind of request.
var (
	handoff  = []step{reserveOnDecode, runPrefill, complete, readOnDecode, end}
	incident = []step{reserveOnDecode, rejectAndRun, complete, readOnDecode, end}
	refused  = []step{reserveOnDecode, refuse, giveBack}
	unified  = []step{reserveUnified, readOnDecode, end}
)

// arrive makes the next request.
func (g *Generator) arrive() *request {
	r := &request{n: g.arrived, tenant: g.rng.IntN(tenants)}
	i := g.rng.IntN(pairs)
	r.id, r.xfer = fmt.Sprintf("r%d", r.n), fmt.Sprintf("x%d", r.n)
	r.prefill, r.decode = g.engines.prefill[i], g.engines.decode[i]
	draw := g.rng.IntN(1000)
	switch {
	case g.incident():
		r.steps, r.prompt = incident, g.between(681_281, 700_000)
	case draw < unifiedShare:
		r.steps, r.decode, r.prefill = unified, g.engines.unified[i], nil
		r.prompt = prefixPages*pageTokens + g.length()
	case draw < unifiedShare+refusedShare:
		r.steps, r.prompt = refused, g.between(681_281, 700_000)
	default:
		r.steps, r.prompt = handoff, g.length()
	}
	if r.prefill != nil {
		r.room = fmt.Sprintf("%d", 1_000_000+r.n)
	}
	g.arrived++
	return r
}

// length is that of a prompt: most are short, a few are long, 16 to 32,768.
func (g *Generator) length() int64 {
	return int64(16) << g.rng.IntN(8) * g.between(1, 16)
}

func pagesFor(tokens int64) int { return int((tokens + pageTokens - 1) / pageTokens) }

func (g *Generator) admit(e *engine, r *request, prefix int64) {
	f := lifecycle.Fact{Req: r.id, Room: r.room, Domain: lifecycle.Some(domain(r.tenant)), PromptTokens: lifecycle.Some(r.prompt)}
	if prefix > 0 {
		f.PrefixTokens = lifecycle.Some(prefix)
	}
	g.say(e, lifecycle.RequestAdmitted, f)
}

func (g *Generator) about(e *engine, ev lifecycle.Ev, r *request, pages lifecycle.Runs, by lifecycle.By) {
	g.say(e, ev, lifecycle.Fact{Req: r.id, Pool: kv, Pages: pages, By: by})
}

func (g *Generator) start(e, peer *engine, r *request, side lifecycle.Side, pages lifecycle.Runs) {
	g.say(e, lifecycle.TransferStarted, lifecycle.Fact{
		Xfer: r.xfer, Room: r.room, Side: side, Pool: kv, Pages: pages, Peer: peer.name, Op: lifecycle.Push,
	})
}

func reserveOnDecode(g *Generator, r *request) (int64, bool) {
	var ok bool
	if r.here, ok = r.decode.pool.take(pagesFor(r.prompt)); !ok {
		return 5 * millisecond, false
	}
	g.admit(r.decode, r, 0)
	g.about(r.decode, lifecycle.PagesReserved, r, r.here, 0)
	g.start(r.decode, r.prefill, r, lifecycle.Receiver, r.here)
	return g.between(millisecond, 20*millisecond), true
}

// runPrefill computes the prompt and begins to send it.
func runPrefill(g *Generator, r *request) (int64, bool) {
	return g.send(r, pagesFor(r.prompt), func() { g.admit(r.prefill, r, 0) })
}

// rejectAndRun is steps 2 to 4 of the incident: the rejection is said and asked
// for in the wrong place, a placeholder of one token is computed and sent.
func rejectAndRun(g *Generator, r *request) (int64, bool) {
	return g.send(r, 1, func() {
		g.rooms = append(g.rooms, r.room)
		g.admit(r.prefill, r, 0)
		g.reject(r)
	})
}

func (g *Generator) send(r *request, pages int, admit func()) (int64, bool) {
	var ok bool
	if r.there, ok = r.prefill.pool.take(pages); !ok {
		return 5 * millisecond, false
	}
	admit()
	g.about(r.prefill, lifecycle.PagesReserved, r, r.there, 0)
	g.about(r.prefill, lifecycle.PagesWritten, r, r.there, lifecycle.ByForward)
	g.start(r.prefill, r.decode, r, lifecycle.Sender, r.there)
	return g.between(millisecond, 50*millisecond), true
}

func (g *Generator) reject(r *request) {
	g.say(r.prefill, lifecycle.RequestRejected, lifecycle.Fact{
		Req: r.id, Room: r.room, HTTPStatus: 400, Reason: "the input is longer than the longest allowed",
	})
}

// complete ends the transfer: as many pages as prefill sent are written, the
// completion has no length.
func complete(g *Generator, r *request) (int64, bool) {
	g.about(r.decode, lifecycle.PagesWritten, r, first(r.here, r.there.Pages()), lifecycle.ByTransfer)
	g.say(r.decode, lifecycle.TransferCompleted, lifecycle.Fact{
		Xfer: r.xfer, Room: r.room, Peer: r.prefill.name, Outcome: lifecycle.OK, Last: true,
	})
	g.about(r.prefill, lifecycle.PagesReleased, r, r.there, 0)
	r.prefill.pool.give(r.there)
	return g.between(millisecond, 5*millisecond), true
}

func readOnDecode(g *Generator, r *request) (int64, bool) {
	g.about(r.decode, lifecycle.PagesRead, r, append(r.prefix[:len(r.prefix):len(r.prefix)], r.here...), 0)
	return g.between(20*millisecond, 3*second), true
}

func end(g *Generator, r *request) (int64, bool) {
	g.say(r.decode, lifecycle.RequestFinished, lifecycle.Fact{Req: r.id, Room: r.room, HTTPStatus: 200, Finish: lifecycle.FinishStop})
	return giveBack(g, r)
}

func giveBack(g *Generator, r *request) (int64, bool) {
	g.about(r.decode, lifecycle.PagesReleased, r, append(r.prefix[:len(r.prefix):len(r.prefix)], r.here...), 0)
	r.decode.pool.give(r.here)
	return 0, true
}

// refuse is the rejection as it should be: before any transfer; decode waits
// until nothing can arrive any more.
func refuse(g *Generator, r *request) (int64, bool) {
	g.reject(r)
	g.say(r.decode, lifecycle.TransferCompleted, lifecycle.Fact{Xfer: r.xfer, Room: r.room, Peer: r.prefill.name, Outcome: lifecycle.Failed})
	g.say(r.decode, lifecycle.TransferDrained, lifecycle.Fact{Xfer: r.xfer, Room: r.room, Peer: r.prefill.name})
	g.say(r.decode, lifecycle.RequestFinished, lifecycle.Fact{Req: r.id, Room: r.room, HTTPStatus: 400, Finish: lifecycle.FinishError})
	return millisecond, true
}

// reserveUnified takes the tenant's prefix from the cache and computes the rest.
func reserveUnified(g *Generator, r *request) (int64, bool) {
	var ok bool
	if r.here, ok = r.decode.pool.take(pagesFor(r.prompt) - prefixPages); !ok {
		return 5 * millisecond, false
	}
	r.prefix = r.decode.prefix[r.tenant]
	g.admit(r.decode, r, prefixPages*pageTokens)
	g.say(r.decode, lifecycle.PagesShared, lifecycle.Fact{Req: r.id, Pool: kv, Pages: r.prefix, Key: prefixKey(r.tenant)})
	g.about(r.decode, lifecycle.PagesReserved, r, r.here, 0)
	g.about(r.decode, lifecycle.PagesWritten, r, r.here, lifecycle.ByForward)
	return g.between(millisecond, 10*millisecond), true
}

// first is the first n pages of runs.
func first(runs lifecycle.Runs, n int) (out lifecycle.Runs) {
	for _, run := range runs {
		if n == 0 {
			break
		}
		run.Count = min(run.Count, uint32(n))
		out = append(out, run)
		n -= int(run.Count)
	}
	return out
}
