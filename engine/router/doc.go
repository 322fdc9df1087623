// Package router sends each request to every rank of a prefill and to a decode
// instance, joined by a fresh room, and hands decode's answer on.
//
// It imports engine/api for bodies and errors, and the standard library. It
// promises:
//   - it keeps nothing of a request or an answer;
//   - a client that leaves, or an abort that is asked for, is told to the instances,
//     which decide what may be cut short;
//   - prefills and decodes take turns; one that does not answer its server_info, a
//     prefill that lacks a rank, or a decode that is not connected to the prefill
//     gets no requests;
//   - where an instance cannot be reached, or says 503 because it stops, another pair
//     is tried, up to a named number; a request that an instance dies with is not
//     begun again elsewhere;
//   - half an answer never looks like a whole one.
package router
