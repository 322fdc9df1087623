package demo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// scenario is one row of the table.
type scenario struct {
	name  string
	shape shape
	play  func(ctx context.Context, w *set, r *row) error
}

var scenarios = []*scenario{
	{"drill rejected-handoff", shape{"rejected-handoff", "", decodePages / 2, decodePages, contextTokens, quick}, rejected},
	{"the same, page tags on", shape{"rejected-handoff", "page-tags", decodePages / 2, decodePages, contextTokens, unhurried}, tagged},
	{"the same, protections on", shape{"", "", decodePages / 2, decodePages, shortContext, unhurried}, protected},
	{"mixed normal traffic", shape{"", "", normalPrefill, normalDecode, shortContext, unhurried}, normal},
	{"drill lying-engine", shape{"lying-engine", "", 4 * decodePages, decodePages, contextTokens, unhurried}, lying},
}

// theIncident is how many of the scenarios, the first, are the incident and what
// stops it: those that a real model plays. A liar spoils every answer of such a
// model, A's too, and normal traffic would take it minutes.
const theIncident = 3

// leaks says whether a text holds half of a secret, in a row: less may be chance.
func leaks(text, secret string) bool {
	half := len(secret) / 2
	for i := range len(secret) - half + 1 {
		if strings.Contains(text, secret[i:i+half]) {
			return true
		}
	}
	return false
}

// tell has a tenant fill decode's pages with its secret, and returns the sidecar's
// name for that request.
func (w *set) tell(ctx context.Context, t tenant, prompt, tokens int) (a answer, as judged, err error) {
	text, err := w.filled(ctx, "-"+question+t.secret+"\n", "", prompt)
	if err != nil {
		return a, as, err
	}
	before, err := w.lastVerdict(ctx)
	if err != nil {
		return a, as, err
	}
	if a, err = w.ask(ctx, t, text, tokens); err != nil {
		return a, as, err
	}
	if a.Status != 200 || !strings.Contains(a.Text, t.secret) {
		return a, as, fmt.Errorf("tenant %s is answered %d %q", t.name, a.Status, a.Text)
	}
	as, err = w.nextVerdict(ctx, before)
	return a, as, err
}

func (w *set) lastVerdict(ctx context.Context) (last uint64, err error) {
	all, err := w.verdicts(ctx, 0)
	if len(all) > 0 {
		last = all[len(all)-1].ID
	}
	return last, err
}

// nextVerdict waits for the first verdict after that one.
func (w *set) nextVerdict(ctx context.Context, after uint64) (v judged, err error) {
	err = await(ctx, func() error {
		all, err := w.verdicts(ctx, after)
		if err == nil && len(all) == 0 {
			err = errors.New("the sidecar gives no verdict")
		}
		if err == nil {
			v = all[0]
		}
		return err
	})
	return v, err
}

// exchange is A's request, of so many tokens with its answer, and then B's, which
// asks where A's text goes on; and what the sidecar said of B's.
func exchange(ctx context.Context, w *set, r *row, prompt, all int) (as judged, err error) {
	if _, as, err = w.tell(ctx, w.tenants[0], prompt, all-prompt); err != nil {
		return as, err
	}
	text, err := w.filled(ctx, filler, question, promptTokens)
	if err != nil {
		return as, err
	}
	since, err := w.lastVerdict(ctx)
	if err != nil {
		return as, err
	}
	got, err := w.ask(ctx, w.tenants[1], text, answerTokens)
	if err != nil {
		return as, err
	}
	v, err := w.nextVerdict(ctx, since)
	if err != nil {
		return as, err
	}
	r.take(&got, leaks(got.Text, w.tenants[0].secret))
	r.room = v.Said.Room
	if err := w.quiet(ctx, r); err != nil {
		return as, err
	}
	said, err := w.verdicts(ctx, since)
	for _, v := range said { // a verdict is said again where more became known
		if v.Said.Room == r.room {
			r.Verdict, r.Why = v.Said.Verdict, v.Said.Why
		}
	}
	return as, err
}

// quiet waits until findings have ceased to come, and takes them over.
func (w *set) quiet(ctx context.Context, r *row) error {
	const still = 500 * time.Millisecond
	last, since := -1, time.Now()
	return await(ctx, func() error {
		all, err := w.findings(ctx, 0)
		if err != nil {
			return err
		}
		if len(all) != last {
			last, since = len(all), time.Now()
		}
		if time.Since(since) < still {
			return errors.New("findings still come")
		}
		r.found = all
		return nil
	})
}

// rejected is the incident.
func rejected(ctx context.Context, w *set, r *row) error {
	as, err := exchange(ctx, w, r, 200, contextTokens)
	if err != nil {
		return err
	}
	r.expect(200, true, "violated")
	want := []string{"rejected_handoff", "short_handoff", "stale_read"}
	if w.outside {
		r.allowed = []string{"claim_mismatch"} // the engines' claims do not agree with what was seen either
	}
	for _, kind := range want {
		if !slices.ContainsFunc(r.found, func(f found) bool { return f.Said.Kind == kind && f.Said.Room == r.room }) {
			r.wrong("no %s of B's request", kind)
		}
	}
	r.allow(append(want, "capacity_inversion")...)
	r.summarize()
	if !slices.ContainsFunc(r.Exposed, func(p party) bool { return p.Req == as.Said.Req && p.Inst == as.Said.Inst && p.Domain != "" }) {
		r.wrong("A's request %s at %s is not named as exposed", as.Said.Req, as.Said.Inst)
	}
	return nil
}

// tagged is the incident with one protection left: what the pages' tags say.
func tagged(ctx context.Context, w *set, r *row) error {
	_, err := exchange(ctx, w, r, 200, contextTokens)
	r.expect(500, false, "violated")
	r.allowed = []string{"claim_mismatch"}
	r.allow("rejected_handoff", "short_handoff", "stale_read", "capacity_inversion")
	r.summarize()
	return err
}

// protected is the same traffic with the protections that kvengine has: its context
// is no longer than its pools, so that A's share of it is smaller.
func protected(ctx context.Context, w *set, r *row) error {
	_, err := exchange(ctx, w, r, 150, shortContext)
	r.expect(400, false, "unwitnessed")
	r.allow()
	r.summarize()
	return err
}

// lying is a transfer that both sides claim to be whole, and of which one page came.
// Only who watches from outside can tell.
func lying(ctx context.Context, w *set, r *row) error {
	_, err := exchange(ctx, w, r, 200, contextTokens)
	if !w.outside {
		r.expect(200, true, "unwitnessed")
		r.allow()
		r.summarize()
		return err
	}
	r.expect(200, true, "violated")
	want := []string{"claim_mismatch", "short_handoff", "stale_read"}
	for _, kind := range want {
		if !slices.ContainsFunc(r.found, func(f found) bool { return f.Said.Kind == kind && f.Said.Room == r.room }) {
			r.wrong("no %s of B's request", kind)
		}
	}
	r.allow(want...)
	r.summarize()
	return err
}
