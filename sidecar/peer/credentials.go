package peer

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"
)

// protocol is what both sides name in the TLS handshake.
const protocol = "kvwitness-peer/1"

// maxPEM is the largest file of certificates that is read, in bytes.
const maxPEM = 1 << 20

// Files are where a node's certificate, its key and the CA of all peers lie, as PEM.
type Files struct{ Cert, Key, CA string }

// Credentials are what a node shows to its peers, and what it takes them by. Files that
// have changed are read again before the next connection.
type Credentials struct {
	files Files
	log   *slog.Logger

	mu    sync.Mutex
	stamp [3]stamp
	cert  *tls.Certificate
	cas   *x509.CertPool
}

// stamp tells one state of a file from the next.
type stamp struct {
	at   time.Time
	size int64
}

// NewCredentials reads the files.
func NewCredentials(files Files, log *slog.Logger) (*Credentials, error) {
	c := &Credentials{files: files, log: log}
	stamps, err := c.look()
	if err != nil {
		return nil, err
	}
	return c, c.load(stamps)
}

func (c *Credentials) look() (all [3]stamp, err error) {
	for i, path := range [...]string{c.files.Cert, c.files.Key, c.files.CA} {
		info, err := os.Stat(path)
		if err != nil {
			return all, fmt.Errorf("read the peers' certificates: %w", err)
		}
		all[i] = stamp{info.ModTime(), info.Size()}
	}
	return all, nil
}

func (c *Credentials) load(stamps [3]stamp) error {
	cert, err := tls.LoadX509KeyPair(c.files.Cert, c.files.Key)
	if err != nil {
		return fmt.Errorf("read this node's certificate: %w", err)
	}
	in, err := os.Open(c.files.CA)
	if err != nil {
		return fmt.Errorf("read the peers' CA: %w", err)
	}
	defer in.Close()
	text, err := io.ReadAll(io.LimitReader(in, maxPEM))
	if err != nil {
		return fmt.Errorf("read the peers' CA: %w", err)
	}
	cas := x509.NewCertPool()
	if !cas.AppendCertsFromPEM(text) {
		return fmt.Errorf("read the peers' CA: %s holds no certificate in PEM", c.files.CA)
	}
	c.cert, c.cas, c.stamp = &cert, cas, stamps
	return nil
}

// current are the certificate and the CAs, as the files say now; while these cannot be
// read, as they said before.
func (c *Credentials) current() (*tls.Certificate, *x509.CertPool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	stamps, err := c.look()
	if err == nil && stamps != c.stamp {
		if err = c.load(stamps); err == nil {
			c.log.Info("the peers' certificates were read again")
		}
	}
	if err != nil {
		c.log.Warn("the peers' certificates cannot be read again; the old ones stay in force", "error", err)
	}
	return c.cert, c.cas
}

func (c *Credentials) config() *tls.Config {
	cert, cas := c.current()
	return &tls.Config{
		MinVersion: tls.VersionTLS13, NextProtos: []string{protocol}, SessionTicketsDisabled: true,
		Certificates: []tls.Certificate{*cert}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: cas, RootCAs: cas,
	}
}

// server is for who is dialled.
func (c *Credentials) server() *tls.Config {
	return &tls.Config{
		MinVersion:         tls.VersionTLS13,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return c.config(), nil },
	}
}

// client is for who dials host.
func (c *Credentials) client(host string) *tls.Config {
	cfg := c.config()
	cfg.ServerName = host
	return cfg
}

// ofCertificates reports whether an error is about a certificate, ours or theirs: what
// the other side says of it comes as an operation of TLS's own.
func ofCertificates(err error) bool {
	var told *net.OpError
	var verify *tls.CertificateVerificationError
	return errors.As(err, &verify) || errors.As(err, &told) && told.Op == "remote error"
}
