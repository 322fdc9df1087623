package live

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Promise: on a node that is short of processors, where probe, engines and sidecar
// stand still for up to 700 ms each, ordinary traffic is accused of nothing: what came
// too late costs sight.
func TestWhoStandsStillIsAccusedOfNothing(t *testing.T) {
	k := newPair(t)
	s := sidecar(t, k.engines(), "--watch", "exe="+engine)
	if err := s.AwaitProbe(1); err != nil {
		t.Fatal(err)
	}
	k.proc["decode"].Kill() // it registers again, before a witness
	k.start("decode")
	n := 0
	if err := Await("a clean handoff", func() bool {
		n++
		k.ask(fmt.Sprintf("%d %s", n, strings.Repeat("some text ", 20)))
		all, err := s.Verdicts(0)
		return err == nil && len(all) > 0 && all[len(all)-1].Said.Verdict == "clean"
	}); err != nil {
		t.Fatal(err)
	}
	who := []int{probePID(t, s), k.proc["decode"].Process.Pid, k.proc["prefill"].Process.Pid, s.Process.Process.Pid}
	done := make(chan struct{})
	var clients sync.WaitGroup
	for c := range 4 {
		clients.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-done:
					return
				default:
					k.ask(fmt.Sprintf("%d-%d %s", c, n, strings.Repeat("some text ", 1+n*7%40)))
				}
			}
		})
	}
	seed := uint64(time.Now().UnixNano())
	t.Log("seed", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	for range 5 {
		for _, pid := range who {
			_ = syscall.Kill(pid, syscall.SIGSTOP)
			time.Sleep(time.Duration(2+rng.IntN(700)) * time.Millisecond)
			_ = syscall.Kill(pid, syscall.SIGCONT)
			time.Sleep(time.Duration(50+rng.IntN(200)) * time.Millisecond)
		}
	}
	close(done)
	clients.Wait()
	found, err := s.Rest(0)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range found {
		if f.Said.Kind != "blind" {
			t.Errorf("accused: %+v", f)
		}
	}
}
