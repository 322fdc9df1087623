// Package credentials holds what one who listens or dials shows by TLS, and by which it
// takes others: a certificate, its key, and the authorities that vouch for those on the
// other side. Files that have changed are read again before the next connection, and
// while they cannot be, the old ones stay in force.
//
// It imports nothing of kvwitness. It promises: TLS 1.3 between those who
// both show a certificate, and for who listens; and where there are authorities nobody
// is taken without a certificate of theirs.
package credentials

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"time"
)

// maxPEM is the largest file of certificates that is read, in bytes.
const maxPEM = 1 << 20

// ErrHalf is returned where a certificate is named without its key, a key without its
// certificate, or authorities without both.
var ErrHalf = errors.New("name a certificate and its key")

// Files are where a certificate, its key and the authorities for the other side lie, as
// PEM. Without CA a client is not asked for a certificate, and servers are believed by
// the system's authorities.
type Files struct{ Cert, Key, CA string }

// Config says what credentials are for.
type Config struct {
	Files
	Of        string   // whose they are, in errors and in the log: "the peers'"
	Protocols []string // named in the handshake, the preferred one first
	Log       *slog.Logger
}

// Credentials are what a side shows, and what it takes the other by.
type Credentials struct {
	cfg Config

	mu    sync.Mutex
	stamp [3]stamp
	cert  *tls.Certificate
	cas   *x509.CertPool // nil: none are named
}

// stamp tells one state of a file from the next.
type stamp struct {
	at   time.Time
	size int64
}

// New reads the files.
func New(cfg Config) (*Credentials, error) {
	if cfg.Cert == "" || cfg.Key == "" {
		return nil, fmt.Errorf("read %s certificates: %w", cfg.Of, ErrHalf)
	}
	c := &Credentials{cfg: cfg}
	stamps, err := c.look()
	if err != nil {
		return nil, err
	}
	return c, c.load(stamps)
}

func (c *Credentials) look() (all [3]stamp, err error) {
	for i, path := range [...]string{c.cfg.Cert, c.cfg.Key, c.cfg.CA} {
		if path == "" {
			continue
		}
		info, err := os.Stat(path)
		if err != nil {
			return all, fmt.Errorf("read %s certificates: %w", c.cfg.Of, err)
		}
		all[i] = stamp{info.ModTime(), info.Size()}
	}
	return all, nil
}

func (c *Credentials) load(stamps [3]stamp) error {
	cert, err := tls.LoadX509KeyPair(c.cfg.Cert, c.cfg.Key)
	if err != nil {
		return fmt.Errorf("read %s certificates: %w", c.cfg.Of, err)
	}
	var cas *x509.CertPool
	if c.cfg.CA != "" {
		if cas, err = authorities(c.cfg.CA); err != nil {
			return fmt.Errorf("read %s authorities: %w", c.cfg.Of, err)
		}
	}
	c.cert, c.cas, c.stamp = &cert, cas, stamps
	return nil
}

// Asking is for who asks a server once: with a certificate where one is named.
func Asking(files Files) (*tls.Config, error) {
	if files.Cert == "" && files.Key == "" {
		return Trust(files.CA)
	}
	c, err := New(Config{Files: files, Of: "this client's", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, err
	}
	return c.config(), nil
}

// Trust is who may vouch for a server: the authorities of a file, or nil for the
// system's where path is "".
func Trust(path string) (*tls.Config, error) {
	if path == "" {
		return nil, nil
	}
	cas, err := authorities(path)
	if err != nil {
		return nil, fmt.Errorf("read the authorities: %w", err)
	}
	return &tls.Config{RootCAs: cas, MinVersion: tls.VersionTLS12}, nil
}

// authorities reads a file of certificates, as PEM.
func authorities(path string) (*x509.CertPool, error) {
	in, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	text, err := io.ReadAll(io.LimitReader(in, maxPEM))
	if err != nil {
		return nil, err
	}
	cas := x509.NewCertPool()
	if !cas.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s holds no certificate in PEM", path)
	}
	return cas, nil
}

// current are the certificate and the authorities, as the files say now; while these
// cannot be read, as they said before.
func (c *Credentials) current() (*tls.Certificate, *x509.CertPool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	stamps, err := c.look()
	if err == nil && stamps != c.stamp {
		if err = c.load(stamps); err == nil {
			c.cfg.Log.Info("certificates were read again", "of", c.cfg.Of)
		}
	}
	if err != nil {
		c.cfg.Log.Warn("certificates cannot be read again; the old ones stay in force", "of", c.cfg.Of, "error", err)
	}
	return c.cert, c.cas
}

// Mutual reports whether the other side has to show a certificate.
func (c *Credentials) Mutual() bool { return c.cfg.CA != "" }

func (c *Credentials) config() *tls.Config {
	cert, cas := c.current()
	cfg := &tls.Config{
		MinVersion: tls.VersionTLS13, NextProtos: c.cfg.Protocols, SessionTicketsDisabled: true,
		Certificates: []tls.Certificate{*cert}, RootCAs: cas,
	}
	if c.Mutual() {
		cfg.ClientAuth, cfg.ClientCAs = tls.RequireAndVerifyClientCert, cas
	}
	return cfg
}

// Server is for who is dialled.
func (c *Credentials) Server() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13, NextProtos: c.cfg.Protocols,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return c.config(), nil },
	}
}

// Client is for who dials host.
func (c *Credentials) Client(host string) *tls.Config {
	cfg := c.config()
	cfg.ServerName = host
	return cfg
}
