package router

import (
	"net"
	"net/url"
	"slices"
	"strconv"
	"sync/atomic"

	"github.com/kvwitness/kvwitness/engine/api"
)

// instance is one API, and what its server_info says; nil while it does not.
type instance struct {
	url  *url.URL
	info atomic.Pointer[api.Info]
}

// address of an instance for errors, without what a URL may hide.
func (i *instance) address() string {
	port := i.url.Port()
	if port == "" {
		port = strconv.Itoa(80)
	}
	return net.JoinHostPort(i.url.Hostname(), port)
}

// prefill is the ranks of one prefill, all of them up. Each brings a share of every
// page, so each must have the request.
type prefill struct {
	bootstrap string // address
	ranks     []*instance
}

// pair is who serves one request.
type pair struct {
	prefill
	decode  *instance
	control string // decode's
}

func (r *Router) all() []*instance { return slices.Concat(r.prefills, r.decodes) }

// Ready says whether a prefill, with all its ranks, and a decode that is connected
// to it answer.
func (r *Router) Ready() bool { return r.choose(0, nil) != nil }

// choose takes the pair whose turn it is, of those without an instance to avoid:
// prefills take turns, and decodes each time that all prefills have had theirs. Nil:
// there is none.
func (r *Router) choose(turn uint64, avoid map[*instance]bool) *pair {
	prefills := r.complete(avoid)
	count := uint64(len(prefills))
	for n := range count {
		p := prefills[(turn+n)%count]
		if d, control := r.decodeFor(p.bootstrap, turn/count, avoid); d != nil {
			return &pair{p, d, control}
		}
	}
	return nil
}

// complete are the prefills of which every rank is up.
func (r *Router) complete(avoid map[*instance]bool) (out []prefill) {
	ranks, sizes := map[string]map[int]*instance{}, map[string]int{}
	var order []string
	for _, i := range r.prefills {
		info := i.info.Load()
		if info == nil || avoid[i] {
			continue
		}
		at, size := bootstrapOf(i, info)
		if ranks[at] == nil {
			ranks[at], order = map[int]*instance{}, append(order, at)
		}
		ranks[at][info.PPRank], sizes[at] = i, size
	}
	for _, at := range order {
		p := prefill{bootstrap: at}
		for rank := range sizes[at] {
			if i := ranks[at][rank]; i != nil {
				p.ranks = append(p.ranks, i)
			}
		}
		if len(p.ranks) == sizes[at] {
			out = append(out, p)
		}
	}
	return out
}

// bootstrapOf is where a prefill is found, and how many APIs it has: an engine that
// does not name the address serves it beside its API, and all ranks by one API.
func bootstrapOf(i *instance, info *api.Info) (address string, size int) {
	if info.Bootstrap != "" {
		return info.Bootstrap, max(info.PPSize, 1)
	}
	return net.JoinHostPort(i.url.Hostname(), strconv.Itoa(info.BootstrapPort)), 1
}

// decodeFor takes the decode whose turn it is, of those that are connected to a
// prefill or do not say.
func (r *Router) decodeFor(bootstrap string, turn uint64, avoid map[*instance]bool) (d *instance, control string) {
	count := uint64(len(r.decodes))
	for n := range count {
		i := r.decodes[(turn+n)%count]
		info := i.info.Load()
		if info != nil && !avoid[i] && (info.Prefills == nil || slices.Contains(info.Prefills, bootstrap)) {
			return i, info.Control
		}
	}
	return nil, ""
}
