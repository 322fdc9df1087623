package canary

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// Sharing is what shows whether one tenant's prompts are in another's cache: how
// answers to prompts that another has sent compare with answers to new ones.
type Sharing struct {
	Repeated, Fresh []time.Duration // until the first text
	// CachedRepeated and CachedFresh are how many tokens the service says came from a
	// cache, over all of them, where it says so (Said).
	CachedRepeated, CachedFresh int
	Said                        bool
}

// How many times sooner, and with which chance of a false alarm at most, answers
// must come to show a shared cache.
const (
	soonerBy    = 1.3
	sharingOdds = -5.5
	// sharedTokens is how many tokens more must come from the cache.
	sharedTokens = 16
)

// Found reports whether the cache is shared.
func (s *Sharing) Found() bool {
	if s.Said {
		return s.CachedRepeated-s.CachedFresh >= sharedTokens
	}
	return s.Odds() <= sharingOdds && float64(median(s.Fresh)) >= soonerBy*float64(median(s.Repeated))
}

// Odds is the common logarithm of the chance that repeated ones come before new ones
// as they did, or more so, if nothing is shared: the one-sided rank-sum test.
func (s *Sharing) Odds() float64 {
	if s.Said {
		return math.Inf(-1) // no chance is in it
	}
	n, m := len(s.Repeated), len(s.Fresh)
	if n == 0 || m == 0 {
		return 0
	}
	below := 0 // pairs in which the repeated one is sooner
	for _, r := range s.Repeated {
		for _, f := range s.Fresh {
			if r < f {
				below++
			}
		}
	}
	ways := rankSums(n, m)
	at, all := 0.0, 0.0
	for u, w := range ways {
		all += w
		if u >= below {
			at += w
		}
	}
	return math.Log10(at / all)
}

// rankSums counts the orders of n and m values by in how many of their n×m pairs the
// one of the n comes first.
func rankSums(n, m int) []float64 {
	ways := make([][]float64, m+1) // of i of the n and each j of the m
	for j := range ways {
		ways[j] = []float64{1}
	}
	for i := 1; i <= n; i++ {
		next := make([][]float64, m+1)
		for j := range next {
			next[j] = make([]float64, i*j+1)
			for u := range next[j] {
				// The last of the order is one of the n, which comes before none of the
				// others, or one of the m, before which all i come.
				if u < len(ways[j]) {
					next[j][u] += ways[j][u]
				}
				if j > 0 && u >= i && u-i < len(next[j-1]) {
					next[j][u] += next[j-1][u-i]
				}
			}
		}
		ways = next
	}
	return ways[m]
}

func median(all []time.Duration) time.Duration {
	if len(all) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(all))
	return sorted[len(sorted)/2]
}

// Say tells what was seen.
func (s *Sharing) Say() string {
	if s.Said {
		return fmt.Sprintf("%d tokens of prompts that another had sent came from a cache, %d of new ones", s.CachedRepeated, s.CachedFresh)
	}
	return fmt.Sprintf("the first text comes after %s where another had sent the prompt, after %s where it is new (medians of %d and %d)",
		median(s.Repeated).Round(time.Millisecond/10), median(s.Fresh).Round(time.Millisecond/10), len(s.Repeated), len(s.Fresh))
}
