// Package model holds what the engine computes besides attention: tokens, the
// built-in network, sampling and stopping.
//
// The built-in network is an induction head over bytes: it continues a text by
// what followed the same bytes earlier in its context. Its weights are computed in
// code, so that its answer is known in advance (Expect) and yet comes only out of
// the keys and values that attention reads from the pages: a page that holds
// somebody else's keys and values becomes visible text of somebody else.
//
// It imports the standard library only. Everything in it is pure: no clock, no
// randomness but a seed that is passed in, no goroutine, no I/O.
package model
