package oracle

import "github.com/kvwitness/kvwitness/sidecar/finding"

// wrongBlock charges a share of pages that were cached under another key than
// the one asked for (R14).
func (o *oracle) wrongBlock(e *entry, pages []*page, c *charges) {
	for _, pg := range pages {
		if e.Key != "" && pg.gen.key != "" && pg.gen.key != e.Key && !pg.gen.unknown {
			c.add(finding.WrongBlock, e.Fact, o.by(e.Fact), pg, "the prefix was shared", "the page was cached for another")
		}
	}
}
