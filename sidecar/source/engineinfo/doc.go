// Package engineinfo asks a running engine's HTTP endpoints what it says of
// itself: which engine it is, its version and role, its pools and its context, and
// how its protections stand. It knows SGLang, vLLM and kvengine.
//
// It imports engine/lifecycle and sidecar/credentials. What an engine says here is a claim, and hostile
// input; the package promises:
//
//  1. Each endpoint is asked on its own, all at once, and bounded in bytes and
//     time: one that is half dead costs only what it would have said.
//  2. No redirect is followed, and nothing is kept of an answer but numbers that
//     can be, and words of closed sets or of bounded length.
//  3. A key of the wrong type, or that is not there, costs that key alone: versions
//     differ.
//  4. What was said before stays known until the same endpoint says otherwise.
package engineinfo
