package model

import (
	"math"
	"math/rand/v2"
)

// Sampler picks tokens from logits: the most likely where the temperature is 0,
// else at random in proportion to exp(logit ÷ temperature). Equal seeds pick alike.
type Sampler struct {
	temperature float64
	random      *rand.Rand
}

// NewSampler returns a sampler; a temperature that is not above 0 is greedy.
func NewSampler(temperature float64, seed uint64) *Sampler {
	return &Sampler{temperature, rand.New(rand.NewPCG(seed, 0))}
}

// Pick returns a token. Of equal logits the greedy choice is the first. ok is
// false where there is no choice: no logits, or none that is a number.
func (s *Sampler) Pick(logits []float32) (pick Token, ok bool) {
	best := -1
	for i, l := range logits {
		if l == l && (best < 0 || l > logits[best]) {
			best = i
		}
	}
	if best < 0 {
		return 0, false
	}
	if !(s.temperature > 0) || math.IsInf(float64(logits[best]), 0) {
		return Token(best), true
	}
	return s.draw(logits, float64(logits[best])), true
}

// draw picks at random; top is the largest logit, so that no sum overflows.
func (s *Sampler) draw(logits []float32, top float64) Token {
	weigh := func(l float32) float64 {
		if l != l {
			return 0
		}
		return math.Exp((float64(l) - top) / s.temperature)
	}
	var sum float64
	for _, l := range logits {
		sum += weigh(l)
	}
	point, last := s.random.Float64()*sum, 0
	for i, l := range logits {
		w := weigh(l)
		if w == 0 {
			continue
		}
		if last = i; point < w {
			break
		}
		point -= w
	}
	return Token(last)
}
