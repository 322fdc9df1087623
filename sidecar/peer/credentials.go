package peer

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"

	"github.com/kvwitness/kvwitness/sidecar/credentials"
)

// protocol is what both sides name in the TLS handshake.
const protocol = "kvwitness-peer/1"

// NewCredentials reads what a node shows to its peers, and what it takes them by: all
// three files are needed.
func NewCredentials(files credentials.Files, log *slog.Logger) (*credentials.Credentials, error) {
	if files.CA == "" {
		return nil, fmt.Errorf("read the peers' authorities: %w", ErrOpen)
	}
	return credentials.New(credentials.Config{Files: files, Of: "the peers'", Protocols: []string{protocol}, Log: log})
}

// ofCertificates reports whether an error is about a certificate, ours or theirs: what
// the other side says of it comes as an operation of TLS's own.
func ofCertificates(err error) bool {
	var told *net.OpError
	var verify *tls.CertificateVerificationError
	return errors.As(err, &verify) || errors.As(err, &told) && told.Op == "remote error"
}
