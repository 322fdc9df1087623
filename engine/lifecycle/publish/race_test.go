//go:build race

package publish

// raceEnabled: what is measured is the detector.
const raceEnabled = true
