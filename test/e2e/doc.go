// Package e2e runs whole engines against each other over real sockets: routers,
// prefills and decodes with their HTTP, ZMTP and transfers. It has no code of its
// own but for tests.
package e2e
