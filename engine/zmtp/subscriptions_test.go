package zmtp

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// The promise: matching answers as a plain search over all prefixes would.
func TestSubscriptionsMatchLikeAPlainSearch(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	rng := rand.New(rand.NewPCG(seed, 2))
	word := func(n int) string {
		b := make([]byte, rng.IntN(n))
		for i := range b {
			b[i] = "ab\x00\xff"[rng.IntN(4)]
		}
		return string(b)
	}
	s := &subscriptions{max: 1 << 30, maxBytes: 10}
	model := map[string]int{}
	for range 5_000 {
		p := word(6)
		if rng.IntN(3) > 0 {
			if err := s.add([]byte(p)); err != nil {
				t.Fatal(err)
			}
			model[p]++
		} else {
			s.remove([]byte(p))
			if model[p]--; model[p] <= 0 {
				delete(model, p)
			}
		}
		topic, want := word(9), false
		for q := range model {
			want = want || strings.HasPrefix(topic, q)
		}
		if got := s.match([]byte(topic)); got != want {
			t.Fatalf("seed %d: match(%q) is %v, want %v with %v", seed, topic, got, want, model)
		}
	}
}

func TestSubscriptionsAreBounded(t *testing.T) {
	s := &subscriptions{max: 3, maxBytes: 4}
	for i := range 3 {
		if err := s.add([]byte(fmt.Sprint(i))); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.add([]byte("0")); !errors.Is(err, ErrTooLarge) {
		t.Errorf("fourth subscription: %v, want ErrTooLarge", err)
	}
	s.remove([]byte("0"))
	if err := s.add([]byte("12345")); !errors.Is(err, ErrTooLarge) {
		t.Errorf("long prefix: %v, want ErrTooLarge", err)
	}
	if err := s.add([]byte("0")); err != nil {
		t.Errorf("after one was taken back: %v", err)
	}
}

func TestChangesOfSubscriptionsArePaced(t *testing.T) {
	s := &subscriptions{max: 3, maxBytes: 4}
	now := time.Unix(1000, 0)
	for i := range 6 {
		if err := s.change(now, i%2 == 0, nil); err != nil {
			t.Fatalf("change %d: %v", i, err)
		}
	}
	if err := s.change(now.Add(changeWindow-1), true, nil); !errors.Is(err, ErrTooLarge) {
		t.Errorf("one change too many: %v, want ErrTooLarge", err)
	}
	if err := s.change(now.Add(changeWindow), true, nil); err != nil {
		t.Errorf("in the next window: %v", err)
	}
}

func TestBackoffGrowsToItsLimitAndJitterOnlyShortensIt(t *testing.T) {
	b := Backoff{Min: 100 * time.Millisecond, Max: time.Second, Jitter: 0.5}
	for n, want := range []time.Duration{100, 200, 400, 800, 1000, 1000} {
		want *= time.Millisecond
		if got := b.Delay(n, 0); got != want {
			t.Errorf("attempt %d waits %v, want %v", n, got, want)
		}
		if got := b.Delay(n, 0.999); got < want/2 || got >= want {
			t.Errorf("attempt %d with jitter waits %v, want within [%v, %v)", n, got, want/2, want)
		}
	}
	if got := b.Delay(1<<30, 0); got != time.Second {
		t.Errorf("after a billion attempts %v, want the limit", got)
	}
}

func TestEndpointsAreReadLikeZeroMQ(t *testing.T) {
	for in, want := range map[string]endpoint{
		"tcp://127.0.0.1:5557": {"tcp", "127.0.0.1:5557"},
		"tcp://*:5557":         {"tcp", ":5557"},
		"tcp://[::1]:0":        {"tcp", "[::1]:0"},
		"ipc:///run/x.sock":    {"unix", "/run/x.sock"},
		"ipc://@abstract":      {"unix", "@abstract"},
	} {
		if got, err := parseEndpoint(in); err != nil || got != want {
			t.Errorf("%s: %+v, %v; want %+v", in, got, err, want)
		}
	}
	for _, in := range []string{"", "tcp://", "udp://a:1", "tcp://nohost", "127.0.0.1:1", "inproc://x"} {
		if _, err := parseEndpoint(in); !errors.Is(err, ErrEndpoint) {
			t.Errorf("%q: error %v, want ErrEndpoint", in, err)
		}
	}
}
