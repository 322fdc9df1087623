package serve

import (
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"testing"

	"github.com/kvwitness/kvwitness/sidecar/credentials"
	"github.com/kvwitness/kvwitness/test/authority"
)

// paths are one of each sort of what is served.
var paths = []string{"/livez", "/healthz", "/metrics", "/api/v1/findings", "/api/v1/state", "/", "/login", "/assets/page.js"}

func secret(t *testing.T, files credentials.Files) *credentials.Credentials {
	t.Helper()
	c, err := credentials.New(credentials.Config{Files: files, Of: "the test's", Protocols: Protocols, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func serveTLS(t *testing.T, address string, access Access) *Server {
	t.Helper()
	src := source(true)
	src.Web = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, "page "+r.URL.Path) })
	s, err := Listen(t.Context(), address, access, src)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close(t.Context()) })
	return s
}

// client shows the certificate of files, if there is one.
func client(t *testing.T, files credentials.Files) *http.Client {
	t.Helper()
	trust, err := credentials.Asking(files)
	if err != nil {
		t.Fatal(err)
	}
	c := &http.Client{Transport: &http.Transport{TLSClientConfig: trust}}
	t.Cleanup(c.CloseIdleConnections)
	return c
}

// Promise: where certificates are asked for, who has none of that authority learns
// nothing, not even whether the sidecar runs; who has one needs no token, and yet the
// right name.
func TestOnlyWhoHasACertificateIsAnswered(t *testing.T) {
	ours, others := authority.New(t), authority.New(t)
	files := credentials.Files(ours.Sign(t.TempDir(), "127.0.0.1"))
	s := serveTLS(t, "127.0.0.1:0", Access{Certificates: secret(t, files)})
	mine := client(t, credentials.Files(ours.Sign(t.TempDir(), "127.0.0.1")))
	foreign := credentials.Files(others.Sign(t.TempDir(), "127.0.0.1"))
	foreign.CA = files.CA
	for _, path := range paths {
		if status, body, _ := asked(t, mine, http.MethodGet, s.URL()+path, nil, nil); status != http.StatusOK {
			t.Errorf("%s with a certificate: %d %s", path, status, body)
		}
		for name, who := range map[string]*http.Client{"none": client(t, credentials.Files{CA: files.CA}), "another's": client(t, foreign)} {
			if resp, err := who.Get(s.URL() + path); err == nil {
				resp.Body.Close()
				t.Errorf("%s with the certificate of %s: %s", path, name, resp.Status)
			}
		}
	}
	if status, _, _ := asked(t, mine, http.MethodGet, s.URL()+"/api/v1/state", map[string]string{"Host": "evil.example"}, nil); status != http.StatusMisdirectedRequest {
		t.Errorf("by another name: %d", status)
	}
	plain, err := http.Get("http://" + s.addr.String() + "/livez")
	if err == nil {
		plain.Body.Close()
		if plain.StatusCode == http.StatusOK {
			t.Error("plain HTTP is answered")
		}
	}
}

// Promise: https without certificates of clients keeps the token safe on its way, and
// the token is asked for yet; a cookie is for https only.
func TestATokenIsAskedForByHTTPSToo(t *testing.T) {
	files := credentials.Files(authority.New(t).Sign(t.TempDir(), "127.0.0.1"))
	s := serveTLS(t, "127.0.0.1:0", Access{Token: goodToken, Certificates: secret(t, credentials.Files{Cert: files.Cert, Key: files.Key})})
	c := client(t, credentials.Files{CA: files.CA})
	c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	if status, _, _ := asked(t, c, http.MethodGet, s.URL()+"/metrics", nil, nil); status != http.StatusUnauthorized {
		t.Errorf("without the token: %d", status)
	}
	if status, _, _ := asked(t, c, http.MethodGet, s.URL()+"/metrics", map[string]string{"Authorization": "Bearer " + goodToken}, nil); status != http.StatusOK {
		t.Errorf("with the token: %d", status)
	}
	_, _, header := asked(t, c, http.MethodPost, s.URL()+"/login", nil, map[string][]string{"token": {goodToken}})
	if cookies := (&http.Response{Header: header}).Cookies(); len(cookies) != 1 || !cookies[0].Secure {
		t.Errorf("the cookie: %v", cookies)
	}
	old := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS12}}
	if conn, err := old.DialContext(t.Context(), "tcp", s.addr.String()); err == nil {
		conn.Close()
		t.Error("TLS 1.2 is spoken")
	}
}

// Promise: beyond private addresses a certificate of the sidecar's own is not enough:
// a token, or certificates of those who ask.
func TestStrangersAreListenedToWithCertificates(t *testing.T) {
	files := credentials.Files(authority.New(t).Sign(t.TempDir(), "127.0.0.1"))
	own := secret(t, credentials.Files{Cert: files.Cert, Key: files.Key})
	if _, err := Listen(t.Context(), "0.0.0.0:0", Access{Certificates: own}, source(true)); !errors.Is(err, ErrOpen) {
		t.Errorf("%v", err)
	}
	serveTLS(t, "0.0.0.0:0", Access{Certificates: own, Token: goodToken})
	serveTLS(t, "0.0.0.0:0", Access{Certificates: secret(t, files)})
}

// Promise: who connects and never ends the handshake keeps no place for long: they are
// bounded as all connections are, and give theirs back.
func TestHalfHandshakesGiveTheirPlacesBack(t *testing.T) {
	files := credentials.Files(authority.New(t).Sign(t.TempDir(), "127.0.0.1"))
	s := serveTLS(t, "127.0.0.1:0", Access{Certificates: secret(t, files)})
	for range MaxConnections {
		c, err := net.Dial("tcp", s.addr.String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := c.Write([]byte{22, 3, 1}); err != nil { // a record begins, and never ends
			t.Fatal(err)
		}
	}
	if status, _, _ := asked(t, client(t, files), http.MethodGet, s.URL()+"/livez", nil, nil); status != http.StatusOK {
		t.Errorf("one more is answered %d", status)
	}
}
