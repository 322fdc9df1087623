package kvcache

// evictHeap orders the pages that may be evicted: least recently used first, of
// equals the lowest page. It is a binary heap that knows where each page sits.
type evictHeap struct {
	nodes []node
	pages []PageID
	at    []int32 // by page: its place in pages, -1 for none
}

func newEvictHeap(nodes []node) evictHeap {
	h := evictHeap{nodes: nodes, at: make([]int32, len(nodes))}
	for i := range h.at {
		h.at[i] = -1
	}
	return h
}

// first is the page to evict next.
func (h *evictHeap) first() (PageID, bool) {
	if len(h.pages) == 0 {
		return NullPage, false
	}
	return h.pages[0], true
}

// place adds, moves or removes pg.
func (h *evictHeap) place(pg PageID, in bool) {
	i := int(h.at[pg])
	switch {
	case in && i < 0:
		h.pages = append(h.pages, pg)
		i = len(h.pages) - 1
		h.at[pg] = int32(i)
		h.up(i)
	case in:
		h.up(h.down(i))
	case i >= 0:
		h.remove(i)
	}
}

func (h *evictHeap) remove(i int) {
	last := len(h.pages) - 1
	h.at[h.pages[i]] = -1
	if i != last {
		h.pages[i] = h.pages[last]
		h.at[h.pages[i]] = int32(i)
	}
	h.pages = h.pages[:last]
	if i != last {
		h.up(h.down(i))
	}
}

func (h *evictHeap) less(i, j int) bool {
	a, b := h.pages[i], h.pages[j]
	if x, y := h.nodes[a].used, h.nodes[b].used; x != y {
		return x < y
	}
	return a < b
}

func (h *evictHeap) swap(i, j int) {
	h.pages[i], h.pages[j] = h.pages[j], h.pages[i]
	h.at[h.pages[i]], h.at[h.pages[j]] = int32(i), int32(j)
}

func (h *evictHeap) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if !h.less(i, parent) {
			return
		}
		h.swap(i, parent)
		i = parent
	}
}

func (h *evictHeap) down(i int) int {
	for {
		child := 2*i + 1
		if child >= len(h.pages) {
			return i
		}
		if right := child + 1; right < len(h.pages) && h.less(right, child) {
			child = right
		}
		if !h.less(child, i) {
			return i
		}
		h.swap(i, child)
		i = child
	}
}
