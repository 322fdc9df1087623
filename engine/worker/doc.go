// Package worker is an engine process without its listeners: it joins scheduler,
// pools, prefix cache and backend, and runs them.
//
// One goroutine owns the scheduler and the pools; another computes the forward
// passes that it launches. Everything else, requests, peers and transfers, comes
// in as events through one bounded queue, and a [Link] carries out what concerns
// peers.
//
// It imports the engine's packages below it and golang.org/x/sys/unix for the
// node's clock; engine/profile for the names of its phases; no HTTP, no sockets. It promises:
//   - each answer gets its tokens in order, and one end;
//   - text of a token is handed out only after the scheduler took the token in, so
//     that a page fault withholds it;
//   - nothing outside may block the owner: a client that does not read costs
//     memory bounded by its own answer;
//   - no prompt, token or text is logged or counted.
package worker
