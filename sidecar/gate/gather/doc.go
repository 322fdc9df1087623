// Package gather makes the picture that a gate decides by: it asks engines and a
// sidecar over HTTP, and sends the traffic that shows how requests are admitted.
//
// It imports sidecar/gate, sidecar/canary, sidecar/credentials and sidecar/source/engineinfo. It promises:
//
//  1. Without traffic nothing is sent but questions (GET).
//  2. Traffic goes to addresses of loopback alone, unless it is allowed elsewhere: it
//     can provoke a real leak. What it may cost in tokens is bounded.
//  3. No text of an answer is kept.
package gather
