//go:build race

package sim_test

// The race detector makes the simulator and its judges ten times slower: it gets a tenth of the small run.
const (
	validTraces   = 8
	faultsOfASort = 1
	streamedFacts = 15_000
	agreeSeeds    = 1
	agreeTraces   = 3
	agreeFaults   = 1
)
