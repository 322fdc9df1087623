package oracle

import (
	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/sidecar/finding"
)

// tenantCrossing charges a share, or a read under a reference, of a page of
// another domain (R13). Unknown domains never accuse.
func (o *oracle) tenantCrossing(f *lifecycle.Fact, pages []*page, c *charges) {
	r := o.who(f)
	for _, pg := range pages {
		owner := pg.gen.domainOf()
		reader := readerDomain(f, pg, r)
		crosses := owner.Has && reader.Has && owner.V != "" && owner.V != reader.V
		if crosses && !pg.gen.unknown {
			c.add(finding.TenantCrossing, f, o.by(f), pg, "the page was shared or read", "it is of another domain")
		}
	}
}

// readerDomain is the request's own domain; where that is unknown, the one
// that its share of the page named.
func readerDomain(f *lifecycle.Fact, pg *page, r *request) lifecycle.Opt[string] {
	if r != nil && r.domain.Has {
		return r.domain
	}
	if f.Ev == lifecycle.PagesShared {
		return f.Domain
	}
	if ref := pg.ref(r); ref != nil {
		return ref.domain
	}
	return lifecycle.Opt[string]{}
}
