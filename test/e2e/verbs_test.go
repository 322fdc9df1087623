package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/kvwitness/kvwitness/engine/drill"
	"github.com/kvwitness/kvwitness/engine/model"
	"github.com/kvwitness/kvwitness/engine/process"
	"github.com/kvwitness/kvwitness/engine/scheduler"
	"github.com/kvwitness/kvwitness/engine/transfer/verbs"
)

// scratch is a folder for the run of all tests.
var scratch string

func TestMain(m *testing.M) {
	var err error
	if scratch, err = os.MkdirTemp("", "e2e"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	_ = os.RemoveAll(scratch)
	os.Exit(code)
}

// stubNIC compiles the library of engine/transfer/verbs' tests: a NIC for engines
// that share a process. Real ones are for test/vm.
var stubNIC = sync.OnceValues(func() (string, error) {
	_ = os.Setenv("STUB_VERBS", scratch)
	const src = "../../engine/transfer/verbs/testdata"
	library := filepath.Join(scratch, "libibverbs.so.1")
	out, err := exec.Command("gcc", "-shared", "-fPIC", "-O1", "-Wl,-soname,libibverbs.so.1",
		"-Wl,--version-script="+filepath.Join(src, "libibverbs.map"), "-o", library, filepath.Join(src, "libibverbs.c"), "-lpthread").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("compile a NIC for tests (it needs gcc and libibverbs-dev): %w\n%s", err, out)
	}
	return library, nil
})

// overVerbs has pages move by RDMA, besides what change does.
func overVerbs(t testing.TB, change setup) setup {
	t.Helper()
	library, err := stubNIC()
	if err != nil {
		t.Fatal(err)
	}
	return func(role scheduler.Role, c *process.Config) {
		c.Transfer = process.Transfer{Verbs: true, Device: verbs.Config{Library: library, GID: verbs.AnyGID}}
		if change != nil {
			change(role, c)
		}
	}
}

// Promise: by verbs a request is answered as the oracle says, whatever its length,
// by several ranks too, and leaves nothing behind; nothing is found.
func TestAnswersAreRightByVerbs(t *testing.T) {
	c, err := disaggregated(t, overVerbs(t, nil))
	if err != nil {
		t.Fatal(err)
	}
	for n := 1; n < len(story)*3; n += 37 {
		prompt := fmt.Sprintf("%03d%s", n, (story + story + story)[:n])
		a := c.complete("", prompt, 20)
		if a.status != 200 || a.text != string(model.Expect([]byte(prompt), 20)) {
			t.Errorf("%d tokens: %d %q %s, want %q", n, a.status, a.text, a.raw, model.Expect([]byte(prompt), 20))
		}
	}
	c.rest()
	c.expectFindings()
}

// Promise: a drill gives the same findings by verbs as over TCP, and the same
// protections stop it: those that look at what arrived among them.
func TestDrillsByVerbsGiveTheirFindings(t *testing.T) {
	for _, e := range exercises {
		if e.unified {
			continue
		}
		e.by = overVerbs
		t.Run(e.drill.String(), func(t *testing.T) {
			c := e.begin(t, e.drill)
			e.play(t, c)
			c.expectFindings(drill.Expected(e.drill).Findings...)
		})
		if !slices.Contains(e.drill.Spec().Off, scheduler.HandoffCompare) {
			continue
		}
		t.Run(e.drill.String()+" compared", func(t *testing.T) {
			c := e.begin(t, e.drill, scheduler.HandoffCompare)
			got := e.play(t, c)
			if want, stops := drill.Stops(e.drill, scheduler.HandoffCompare); stops && got.status != want {
				t.Errorf("ends with %+v, want %d", got, want)
			}
			c.rest()
		})
	}
	t.Run(scheduler.RejectedHandoff.String(), func(t *testing.T) {
		c, err := disaggregated(t, overVerbs(t, incident{drill: scheduler.RejectedHandoff}.setup(t)))
		if err != nil {
			t.Fatal(err)
		}
		if b, secret := play(t, c); b.status != 200 || !leaks(b.text, secret) {
			t.Errorf("B is answered %d %q, A's secret is %s", b.status, b.text, secret)
		}
		c.rest()
		c.expectFindings(drill.Expected(scheduler.RejectedHandoff).Findings...)
	})
}

// Promise: a prefill gives back what a decode held that is gone, though its NIC no
// longer answers.
func TestPrefillGoesOnAfterADecodeThatWroteByVerbs(t *testing.T) {
	c, err := disaggregated(t, overVerbs(t, nil))
	if err != nil {
		t.Fatal(err)
	}
	if a := c.complete("", story, 5); a.status != 200 {
		t.Fatalf("answered %d %s", a.status, a.raw)
	}
	c.must(c.decode.Close())
	c.await("prefill knows", func() bool { return c.prefill.Peers() == 0 })
	c.must(c.prefill.Close())
	c.prefill, c.decode = nil, nil
}
