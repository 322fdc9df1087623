package oracle

import (
	"cmp"
	"maps"
	"slices"
)

// Whatever is walked through to say something is walked through in an order.

func (i *instance) sortedPools() []*pool {
	return slices.SortedFunc(maps.Values(i.pools), func(a, b *pool) int { return cmp.Compare(a.name, b.name) })
}

func (p *pool) sortedPages() []*page {
	return slices.SortedFunc(maps.Values(p.pages), func(a, b *page) int { return cmp.Compare(a.no, b.no) })
}
