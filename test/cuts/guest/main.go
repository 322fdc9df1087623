//go:build linux

// Command guest is the first process of the virtual machine of test/cuts, and its
// only one. It loads the kernel's modules, mounts the disk, says what evidence is
// there, and then keeps incident after incident until the power goes:
//
//	up                  the kernel runs it
//	opened ASIDE        the store is open; ASIDE: it was damaged
//	have SEQ HASH       an entry that can be read
//	whole               all of it verifies
//	put SEQ HASH        an incident is acknowledged
//	failed WHY          one is not
//	done                it ends by itself (KEEP=full: see full.go)
//
// It imports sidecar/evidence.
package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kvwitness/kvwitness/sidecar/evidence"
	"github.com/kvwitness/kvwitness/sidecar/finding"
)

const (
	disk       = "/disk"
	storeBytes = 256 << 20 // more than the disk: nothing is pruned
	diskThere  = time.Minute
)

func main() {
	if err := run(); err != nil {
		say("failed %v", err)
	}
	unix.Sync()
	_ = unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF)
}

// words go to the host.
var words = os.Stdout

func say(format string, args ...any) { fmt.Fprintf(words, format+"\n", args...) }

func run() error {
	if err := boot(); err != nil {
		return err
	}
	s, err := open(disk)
	if err != nil {
		return err
	}
	say("opened %s", s.Stats().Aside)
	if err := tell(s); err != nil {
		return err
	}
	if os.Getenv("KEEP") == "full" {
		if err := errors.Join(s.Close(), full()); err != nil {
			return err
		}
		say("done")
		return nil
	}
	rng := rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))
	for n := s.Stats().Entries; ; n++ {
		put(s, fmt.Sprintf("incident-%d", n/2), rng)
	}
}

// boot makes of the kernel that just came up a machine with a disk.
func boot() error {
	if err := os.MkdirAll("/dev", 0o755); err != nil {
		return err
	}
	if err := unix.Mount("dev", "/dev", "devtmpfs", 0, ""); err != nil {
		return fmt.Errorf("mount /dev: %w", err)
	}
	out, err := os.OpenFile("/dev/ttyS1", os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	words = out
	say("up")
	modules, err := filepath.Glob("/modules/*")
	if err != nil {
		return err
	}
	slices.Sort(modules) // by the order in which they load
	for _, name := range modules {
		if err := load(name); err != nil {
			return fmt.Errorf("load %s: %w", name, err)
		}
	}
	for end := time.Now().Add(diskThere); ; time.Sleep(10 * time.Millisecond) {
		if _, err := os.Stat("/dev/vda"); err == nil {
			break
		} else if time.Now().After(end) {
			return err
		}
	}
	if err := os.MkdirAll(disk, 0o700); err != nil {
		return err
	}
	if err := unix.Mount("/dev/vda", disk, "ext4", 0, ""); err != nil {
		return fmt.Errorf("mount the disk: %w", err)
	}
	return nil
}

func load(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	return unix.FinitModule(int(f.Fd()), "", 0)
}

// open opens the store on the file system at dir.
func open(dir string) (*evidence.Store, error) {
	return evidence.Open(evidence.Config{Dir: filepath.Join(dir, "evidence"), Bytes: storeBytes})
}

// tell says what is there.
func tell(s *evidence.Store) error {
	for _, i := range s.List() {
		all, err := s.Entries(i.ID)
		if err != nil {
			return err
		}
		for _, e := range all {
			say("have %d %s", e.Seq, e.Hash)
		}
	}
	if err := s.Verify(); err != nil {
		return err
	}
	say("whole")
	return nil
}

// put keeps an incident, and says it once it is acknowledged.
func put(s *evidence.Store, id string, rng *rand.Rand) bool {
	k := finding.Kind(rng.IntN(int(finding.NumKind)))
	i := evidence.Incident{ID: id, Kind: k, Severity: k.Severity(), Name: id, Inst: "decode-0", Findings: 1, Open: k.Severity() == finding.Critical}
	l, err := s.Put(i, []byte(`{"part":"opened","noise":"`+noise(rng, rng.IntN(12_000))+`"}`))
	if err != nil {
		say("failed %v", err)
		return false
	}
	say("put %d %s", l.Seq, l.Hash)
	return true
}

// noise is text that does not pack well.
func noise(rng *rand.Rand, n int) string {
	var b strings.Builder
	for range n {
		b.WriteByte("abcdefghijklmnopqrstuvwxyz012345"[rng.IntN(32)])
	}
	return b.String()
}
