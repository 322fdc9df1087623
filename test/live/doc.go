// Package live puts running engines before a running sidecar: the engines are
// those of kvengine, in this process so that a test can look into them, and the
// sidecar is the command as it is shipped. Tests and test/bench/delay use it.
//
// It imports engine packages and asks the sidecar by its HTTP alone.
package live
