// Package canary asks a running service the question that its dashboards do not:
// does this answer belong to this prompt? It speaks to any OpenAI-compatible
// endpoint as two or more tenants, and needs nothing else.
//
// A prompt holds markers of its tenant at several depths, and asks for one of them.
// An answer with HTTP 200 that does not hold it has lost a part of its prompt; one
// that holds a marker of another tenant, whole or in part, re-cased or split over
// chunks, has somebody else's. A wrong usage.prompt_tokens says that the engine
// computed another prompt than the one that was sent. Whether tenants share a prefix
// cache is asked by prompts that one of them has sent and the other repeats: told
// by cached_tokens, else by how much sooner they are answered.
//
// It imports sidecar/credentials. It promises:
//
//  1. Who asks and how much is bounded: a budget of tokens, of time, and of bytes
//     an answer.
//  2. No text of an answer is kept, logged or shown, unless a file is named for it;
//     then in that file, which its owner alone can read.
//  3. Chance is passed in: the same seed asks the same questions. What is decided of
//     answers is decided by pure functions ([Judge]).
package canary
