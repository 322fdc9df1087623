// Package router sends each request to a prefill and a decode instance, joined by a
// fresh room, and hands decode's answer on.
//
// It imports engine/api for bodies and errors, and the standard library. It
// promises: it keeps nothing of a request or an answer; a client that leaves is
// told to both instances, which decide what may be cut short; an instance that
// does not answer its server_info gets no requests.
package router
