package web

import (
	"context"
	"strconv"
	"strings"

	"github.com/kvwitness/kvwitness/sidecar/ledger"
)

const (
	// MaxCells is how many cells the map of one pool has.
	MaxCells = 1 << 14
	// maxPools is how many pools are drawn.
	maxPools = 32
	// strip is how many pages the judge looks at in one go.
	strip = 1 << 16
	// symbols stand for a state and a shade, in the cells of a map.
	symbols = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdef"
)

// PoolMap is the map of one pool.
type PoolMap struct {
	Inst   string         `json:"inst"`
	Pool   string         `json:"pool"`
	Role   string         `json:"role,omitzero"`
	Pages  int            `json:"pages"`
	Per    int            `json:"per"`    // pages of one cell
	Counts map[string]int `json:"counts"` // pages by state
	// Cells are symbols, each with how often it comes in a row if more than once.
	Cells string `json:"cells"`
}

// states are the names of the states, in the order of their symbols.
func states() (names []string) {
	for s := range ledger.NumPageState {
		names = append(names, s.String())
	}
	return names
}

// ask has the judge answer a question between two facts.
type ask func(ctx context.Context, question func(*ledger.Ledger)) error

// maps draws all pools.
func maps(ctx context.Context, judge ask) (all []PoolMap, err error) {
	var pools []ledger.PoolView
	if err := judge(ctx, func(l *ledger.Ledger) { pools = l.Pools() }); err != nil {
		return nil, err
	}
	look := make([]ledger.PageLook, 0, strip)
	for _, p := range pools[:min(len(pools), maxPools)] {
		d := newDrawing(p.Pages)
		for first := 0; first < p.Pages; first += strip {
			n := 0
			err := judge(ctx, func(l *ledger.Ledger) { n = l.Look(p.Inst, p.Pool, first, look[:min(strip, p.Pages-first)]) })
			if err != nil {
				return nil, err
			}
			for _, page := range look[:n] {
				d.page(page)
			}
		}
		d.close()
		all = append(all, PoolMap{Inst: p.Inst, Pool: p.Pool, Role: p.Role, Pages: p.Pages, Per: d.per, Counts: d.named(), Cells: d.cells.String()})
	}
	return all, nil
}

// drawing makes cells of pages. A cell is what most of its pages are; but a page that
// was read and never written shows through all others.
type drawing struct {
	per    int
	counts [ledger.NumPageState]int
	cell   [ledger.NumPageState]int
	shade  uint8
	in     int // pages of the present cell
	last   byte
	run    int
	cells  strings.Builder
}

func newDrawing(pages int) *drawing { return &drawing{per: max(1, (pages+MaxCells-1)/MaxCells)} }

func (d *drawing) page(p ledger.PageLook) {
	d.counts[p.State]++
	d.cell[p.State]++
	d.shade = p.Shade
	if d.in++; d.in == d.per {
		d.finish()
	}
}

func (d *drawing) finish() {
	most := ledger.PageFree
	for s := range ledger.NumPageState {
		if d.cell[s] > d.cell[most] {
			most = s
		}
	}
	if d.cell[ledger.PageStale] > 0 {
		most = ledger.PageStale
	}
	shade := d.shade
	if d.per > 1 || most == ledger.PageFree || most == ledger.PageNull || most == ledger.PageUnknown {
		shade = 0
	}
	symbol := symbols[int(most)*ledger.Shades+int(shade)]
	if symbol != d.last {
		d.flush()
	}
	d.last = symbol
	d.run++
	d.in = 0
	d.cell = [ledger.NumPageState]int{}
}

func (d *drawing) flush() {
	if d.run > 0 {
		d.cells.WriteByte(d.last)
	}
	if d.run > 1 {
		d.cells.WriteString(strconv.Itoa(d.run))
	}
	d.run = 0
}

func (d *drawing) close() {
	if d.in > 0 {
		d.finish()
	}
	d.flush()
}

func (d *drawing) named() map[string]int {
	all := map[string]int{}
	for s, n := range d.counts {
		if n > 0 {
			all[ledger.PageState(s).String()] = n
		}
	}
	return all
}
