// Package production makes traces of production size from a seed: a day of
// traffic of several tenants over prefill, decode and unified engines, with the
// incident among it as often as asked.
//
// It is for tests and benches; it imports engine/lifecycle alone. It promises
// that only the incident requests break a rule, that one seed gives one trace,
// and that its own memory does not grow with the number of requests.
package production
