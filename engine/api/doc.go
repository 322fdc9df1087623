// Package api serves an engine over HTTP in OpenAI's form: completions and chat,
// plain and streaming, models, and what an operator asks an engine: server_info
// with SGLang's keys, its abort_request, health, metrics.
//
// It imports engine/worker and what is below it, and prometheus's client. It
// promises: every body is bounded (MaxBody) and read strictly; an error is an
// object of OpenAI's form with its status; a client that leaves, or an abort, ends
// a request without tearing a transfer; nobody aborts another tenant's; keys,
// prompts and answers are neither logged nor counted.
package api
