// Package lifecycle is format v1 of kvwitness: the facts that say which pages
// of a KV cache were reserved, written, read, shared and released, by whom,
// and what was seen of it from outside.
//
// It holds the [Fact], its two encodings (one JSON object a line in trace
// files, msgpack maps on the wire) and the bounds that every decoder keeps.
// An engine imports it to publish, the sidecar to listen, the tests to write
// traces; it imports nothing of kvwitness.
//
// It promises: a decoder never panics, never allocates more than a small
// multiple of its input, refuses what is out of bounds with an error that
// names the field and what is allowed, and ignores fields that it does not
// know. Whether a fact makes sense where it stands is the ledger's to judge.
package lifecycle
