// Package alert tells Alertmanagers at once of findings that are evidence of wrong
// data, with the labels that the Prometheus rule of the same kind has, so that both
// are one alert.
//
// It imports sidecar/finding. It promises:
//
//  1. Raise never waits: each Alertmanager has a goroutine of its own, which tries
//     again with a pause that doubles, up to [MaxPause].
//  2. There is one alert for each critical kind and no more, however many incidents
//     there are; an alert names the last [MaxNamed] of them.
//  3. An alert goes on until all disclosures of its kind have been closed by a person.
//     Nothing resolves it at once: told no more, it ends after [Lasts], or with the
//     rule.
//  4. Nothing in an alert is a page, a prompt or a token.
package alert
