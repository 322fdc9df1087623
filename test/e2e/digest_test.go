package e2e

import (
	"strconv"
	"testing"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/engine/process"
	"github.com/kvwitness/kvwitness/engine/scheduler"
)

// digests are what both sides said of each room.
func (c *cluster) digests() map[string]map[lifecycle.Side][]uint64 {
	c.t.Helper()
	all := map[string]map[lifecycle.Side][]uint64{}
	for _, f := range c.facts() {
		if f.Ev != lifecycle.ContentDigest {
			continue
		}
		n, err := strconv.ParseUint(f.Digest, 16, 64)
		if err != nil || len(f.Digest) != 16 || f.Pool != "kv" {
			c.t.Fatalf("a digest %+v", f)
		}
		if all[f.Room] == nil {
			all[f.Room] = map[lifecycle.Side][]uint64{}
		}
		all[f.Room][f.Side] = append(all[f.Room][f.Side], n)
	}
	return all
}

// Promise: of each handoff that is compared by digest both sides tell theirs, the
// same one; the same content twice gives two, so that a digest tells nothing of it.
// Where the protection is off, none is told.
func TestBothSidesTellTheDigestThatIsCompared(t *testing.T) {
	for _, off := range []bool{false, true} {
		c, err := disaggregated(t, func(_ scheduler.Role, p *process.Config) {
			if off {
				p.Worker.Off = []scheduler.Protection{scheduler.HandoffDigest}
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, prompt := range []string{promptA, promptB, promptA} {
			if a := c.complete("", prompt, 4); a.status != 200 {
				t.Fatalf("%d %s", a.status, a.raw)
			}
		}
		c.rest()
		seen := map[uint64]bool{}
		all := c.digests()
		for room, d := range all {
			sent, got := d[lifecycle.Sender], d[lifecycle.Receiver]
			if len(sent) != 1 || len(got) != 1 || sent[0] != got[0] || seen[sent[0]] {
				t.Errorf("room %s: sent %x, received %x", room, sent, got)
			}
			seen[sent[0]] = true
		}
		if want := map[bool]int{false: 3, true: 0}[off]; len(all) != want {
			t.Errorf("protection off %v: digests of %d rooms, want %d", off, len(all), want)
		}
		c.expectFindings()
	}
}

// Promise: where a drill spoils what is handed over and the digest is compared, the
// ledger finds content_mismatch in what both sides told, beside what the drill gives
// otherwise.
func TestTheLedgerFindsASpoiledHandoffByItsDigests(t *testing.T) {
	want := map[scheduler.Drill][]string{
		scheduler.LayoutMismatch: {"content_mismatch", "layout_mismatch"},
		scheduler.LyingEngine:    {"content_mismatch"},
	}
	for _, e := range exercises {
		kinds, spoils := want[e.drill]
		if !spoils {
			continue
		}
		t.Run(e.drill.String(), func(t *testing.T) {
			c := e.begin(t, e.drill, scheduler.HandoffDigest)
			e.play(t, c)
			c.rest()
			c.expectFindings(kinds...)
		})
	}
}
