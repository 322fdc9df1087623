// Package config says how kvwitness is told what to do: built-in defaults, one
// file (YAML, TOML or JSON), environment variables that begin with KVWITNESS_,
// and flags, each stronger than the one before.
//
// Every key stands in one table (settings.go) with its help, its default and
// what is allowed. The package imports sidecar/ledger for the judge's settings
// and nothing else of kvwitness. It promises: a key, a variable or a value that
// is not known is an error that names it, where it came from and what is
// allowed; all errors are said at once; nothing is read that was not named.
package config
