package cuts

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var (
	rounds = flag.Int("cuts", 2, "how often the power goes")
	seed   = flag.Uint64("seed", 0, "of when; 0: another each time")
)

const (
	diskBytes = 24 << 20
	// longest is for how long incidents come before the disk's power goes, and
	// soonest how many of its writes and flushes it then still takes.
	longest = 2 * time.Second
	soonest = 12
	// patience is for one boot on a machine that is busy with other things.
	patience = 5 * time.Minute
)

// kept is what the guest said it has, or has acknowledged: hashes by number.
type kept map[uint64]string

// told is what one run of the machine said.
type told struct {
	have, put     kept
	whole, done   bool
	failed, aside []string
}

// listen takes in what the guest says until it ends; up is called when the kernel
// runs, whole once all that is there verified.
func listen(r *running, up, whole func()) told {
	t := told{have: kept{}, put: kept{}}
	for r.words.Scan() {
		word, rest, _ := strings.Cut(strings.TrimSpace(r.words.Text()), " ")
		var seq uint64
		var hash string
		_, _ = fmt.Sscan(rest, &seq, &hash) // of have and put
		switch word {
		case "up":
			up()
		case "opened":
			if rest != "" {
				t.aside = append(t.aside, rest)
			}
		case "have":
			t.have[seq] = hash
		case "whole":
			t.whole = true
			whole()
		case "put":
			t.put[seq] = hash
		case "failed":
			t.failed = append(t.failed, rest)
		case "done":
			t.done = true
		}
	}
	return t
}

// Promise: whenever the power goes, and whatever of what was not flushed the disk
// loses, the incidents that were acknowledged are there after a reboot and verify. A
// full disk refuses incidents, which is counted, harms none that it has, and ends.
func TestAcknowledgedIncidentsSurvivePowerCuts(t *testing.T) {
	if *seed == 0 {
		*seed = uint64(time.Now().UnixNano())
	}
	t.Logf("-args -cuts %d -seed %d", *rounds, *seed)
	rng := rand.New(rand.NewPCG(*seed, 0))
	dir := t.TempDir()
	m, err := newMachine(dir)
	if err != nil {
		t.Fatal(err)
	}
	d := formatted(t, dir)
	acknowledged := kept{}
	// The power may go before anything is acknowledged; a few times in a row it does not.
	for n := 0; n < *rounds || len(acknowledged) == 0 && n < *rounds+8; n++ {
		var lost int
		d, lost = cut(t, m, d, rng, acknowledged)
		t.Logf("cut %d: %d incidents acknowledged so far, %d sectors lost", n+1, len(acknowledged), lost)
	}
	if len(acknowledged) == 0 {
		t.Fatal("nothing was acknowledged before the power went")
	}
	r, err := m.boot(d, "full")
	if err != nil {
		t.Fatal(err)
	}
	timer := time.AfterFunc(patience, func() { _ = r.cmd.Process.Kill() })
	said := listen(r, func() {}, func() {})
	timer.Stop()
	r.off()
	holds(t, said, acknowledged)
	if !said.whole || !said.done || len(said.failed) == 0 {
		t.Errorf("the machine did not come to its end, or was never full: %q\n%s", said.failed, kernel(m))
	}
}

// cut lets incidents come until the power goes, and holds what the machine has when
// it comes up against what was acknowledged before.
func cut(t *testing.T, m *machine, d *disk, rng *rand.Rand, acknowledged kept) (next *disk, lost int) {
	t.Helper()
	r, err := m.boot(d, "")
	if err != nil {
		t.Fatal(err)
	}
	early := rng.IntN(4) == 0 // while it boots, and opens what the last cut left
	after, writes := time.Duration(rng.Int64N(int64(longest))), 1+rng.IntN(soonest)
	due := func(now bool) func() {
		return func() {
			if now {
				time.AfterFunc(after, func() { d.cutAfter(writes) })
			}
		}
	}
	go func() {
		select {
		case <-d.dead:
		case <-time.After(patience):
		}
		_ = r.cmd.Process.Kill()
	}()
	said := listen(r, due(early), due(!early))
	r.off()
	select {
	case <-d.dead:
	default:
		t.Fatalf("the machine ended before its power went: %q\n%s", said.failed, kernel(m))
	}
	holds(t, said, acknowledged)
	for seq, hash := range said.put {
		acknowledged[seq] = hash
	}
	return d.restart(rng)
}

// holds that no store was damaged, and that what was acknowledged is there, if the
// machine came so far as to say what is.
func holds(t *testing.T, said told, acknowledged kept) {
	t.Helper()
	if len(said.aside) > 0 {
		t.Fatalf("the evidence was damaged: %q", said.aside)
	}
	for seq, hash := range acknowledged {
		if said.whole && said.have[seq] != hash {
			t.Errorf("entry %d was acknowledged, and is %q", seq, said.have[seq])
		}
	}
}

// formatted is a disk with an empty file system.
func formatted(t *testing.T, dir string) *disk {
	t.Helper()
	name := filepath.Join(dir, "ext4")
	if out, err := exec.Command("mkfs.ext4", "-q", "-F", "-b", fmt.Sprint(sector), name, fmt.Sprint(diskBytes>>10)+"k").CombinedOutput(); err != nil {
		t.Fatalf("make a file system: %v: %s", err, out)
	}
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return newDisk(append(text, make([]byte, diskBytes-len(text))...))
}

func kernel(m *machine) string {
	text, _ := os.ReadFile(filepath.Join(m.dir, "kernel")) // only to say more
	return string(text[max(0, len(text)-3000):])
}
