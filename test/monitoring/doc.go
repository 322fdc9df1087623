// Package monitoring starts the Prometheus and the Alertmanager that Debian packages,
// with the configuration and the rules of this tree, and asks them. Tests and
// test/pictures use it.
//
// It needs what ready.sh sees to, and asks servers by their HTTP alone.
package monitoring
