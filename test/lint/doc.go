// Package lint holds the house's style as tests: what no linter checks and a
// reader counts on. It has no code of its own and imports nothing of kvwitness.
package lint
