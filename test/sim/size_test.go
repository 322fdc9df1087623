//go:build !race

package sim_test

// The small run; the whole one is a command of its own, test/sim/cmd/sim.
const (
	validTraces   = 60
	faultsOfASort = 6
	streamedFacts = 150_000
	agreeSeeds    = 3
	agreeTraces   = 15
	agreeFaults   = 2
)
