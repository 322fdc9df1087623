package evidence

import (
	"bufio"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kvwitness/kvwitness/sidecar/finding"
)

var (
	killRounds = flag.Int("kill.rounds", 5, "how often the writer is killed")
	killSeed   = flag.Uint64("kill.seed", 0, "seed of when; 0: another each time")
)

// asWriter is the folder of a process that writes until it is killed, and asLimited
// the size that no file of it may exceed.
const asWriter, asLimited = "EVIDENCE_TEST_WRITER", "EVIDENCE_TEST_LIMIT"

func TestMain(m *testing.M) {
	if dir := os.Getenv(asWriter); dir != "" {
		os.Exit(beWriter(dir))
	}
	os.Exit(m.Run())
}

// beWriter puts entries, and says each once it is acknowledged.
func beWriter(dir string) int {
	if text := os.Getenv(asLimited); text != "" {
		var limit uint64
		_, _ = fmt.Sscan(text, &limit)
		signal.Ignore(syscall.SIGXFSZ)
		if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: limit, Max: limit}); err != nil {
			fmt.Println("error", err)
			return 1
		}
	}
	s, err := Open(Config{Dir: dir, Bytes: MinBytes})
	if err != nil {
		fmt.Println("error", err)
		return 1
	}
	fmt.Println("opened", s.Stats().Aside)
	rng := rand.New(rand.NewPCG(uint64(os.Getpid()), 0))
	for n, failed := 0, 0; failed < 5; n++ {
		id := fmt.Sprintf("%d-%d", os.Getpid(), n/2)
		l, err := s.Put(incident(id, finding.Kind(rng.IntN(int(finding.NumKind)))), []byte(noise(rng, rng.IntN(30_000))))
		if err != nil {
			fmt.Println("failed", err)
			failed++
			continue
		}
		fmt.Println("put", l.Seq, l.Hash)
	}
	return 0
}

func writer(t *testing.T, dir string, env ...string) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	cmd.Env = append(append(os.Environ(), asWriter+"="+dir), env...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, bufio.NewScanner(out)
}

// acknowledged are the hashes by number of what the writer says.
func acknowledged(t *testing.T, out *bufio.Scanner, into map[uint64]string) (failed int) {
	t.Helper()
	for out.Scan() {
		var seq uint64
		var hash string
		switch n, _ := fmt.Sscanf(out.Text(), "put %d %s", &seq, &hash); {
		case n == 2:
			into[seq] = hash
		case strings.HasPrefix(out.Text(), "failed"):
			failed++
		case out.Text() != "opened ":
			t.Errorf("the writer says %q", out.Text())
		}
	}
	return failed
}

// allThere reports whether every acknowledged entry is in the store, or was pruned
// and has its link.
func allThere(t *testing.T, dir string, acknowledged map[uint64]string) {
	t.Helper()
	s := openStore(t, Config{Dir: dir, Bytes: MinBytes})
	defer s.Close()
	if s.Stats().Aside != "" {
		t.Fatalf("the store is damaged: %s", s.Stats().Aside)
	}
	if err := s.Verify(); err != nil {
		t.Fatal(err)
	}
	links, err := s.chain(1, s.meta.Next-1)
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range links {
		if want, said := acknowledged[l.Seq]; said && want != l.Hash {
			t.Errorf("entry %d is another", l.Seq)
		}
		delete(acknowledged, l.Seq)
	}
	if len(acknowledged) > 0 {
		t.Errorf("%d acknowledged entries are gone", len(acknowledged))
	}
}

// Promise: whenever the writer is killed, what it acknowledged is there and verifies.
func TestWhatIsAcknowledgedSurvivesAKill(t *testing.T) {
	seed := *killSeed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("-kill.seed %d -kill.rounds %d", seed, *killRounds)
	rng := rand.New(rand.NewPCG(seed, 0))
	dir := t.TempDir()
	said := map[uint64]string{}
	for range *killRounds {
		cmd, out := writer(t, dir)
		if !out.Scan() {
			t.Fatal("the writer says nothing")
		}
		time.AfterFunc(time.Duration(rng.IntN(400))*time.Millisecond, func() { _ = cmd.Process.Kill() })
		acknowledged(t, out, said)
		_ = cmd.Wait()
	}
	if len(said) == 0 {
		t.Fatal("nothing was acknowledged")
	}
	t.Logf("%d acknowledged", len(said))
	allThere(t, dir, said)
}

// Promise: a full disk is said, costs nothing that was acknowledged, and ends.
func TestAFullDiskIsSaidAndCostsNothing(t *testing.T) {
	dir := t.TempDir()
	said := map[uint64]string{}
	cmd, out := writer(t, dir, asLimited+"=400000")
	failed := acknowledged(t, out, said)
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	if failed == 0 || len(said) == 0 {
		t.Fatalf("%d acknowledged, %d failed", len(said), failed)
	}
	s := openStore(t, Config{Dir: dir, Bytes: MinBytes})
	last := put(t, s, incident("after", finding.StaleRead), noise(rand.New(rand.NewPCG(1, 1)), 100_000))
	said[last.Seq] = last.Hash
	_ = s.Close()
	allThere(t, dir, said)
}
