// Package config says how kvengine is told what to do: built-in defaults, one file
// (YAML, TOML or JSON), environment variables that begin with KVENGINE_, and
// flags, each stronger than the one before.
//
// Every key stands in one table with its help, its default and what is allowed
// (serve.go, router.go). The package imports engine/process and engine/router for
// what the keys set. It promises: a key, a variable or a value that is not known
// is an error that names it, where it came from and what is allowed; all errors
// are said at once; nothing is read that was not named.
package config
