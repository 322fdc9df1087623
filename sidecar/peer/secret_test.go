package peer

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
)

// authority signs certificates of nodes.
type authority struct {
	t    testing.TB
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	n    int64
}

func newAuthority(t testing.TB) *authority {
	a := &authority{t: t}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "peers"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	var err error
	if a.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &a.key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	return a
}

// sign writes the files of a node that is dialled at an address.
func (a *authority) sign(dir, address string) Files {
	a.n++
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(1 + a.n), Subject: pkix.Name{CommonName: "node"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.ParseIP(address)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, a.cert, &key.PublicKey, a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	files := Files{filepath.Join(dir, "node.pem"), filepath.Join(dir, "node.key"), filepath.Join(dir, "ca.pem")}
	for path, block := range map[string]*pem.Block{
		files.Cert: {Type: "CERTIFICATE", Bytes: der}, files.Key: {Type: "PRIVATE KEY", Bytes: secret}, files.CA: {Type: "CERTIFICATE", Bytes: a.cert.Raw},
	} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			a.t.Fatal(err)
		}
	}
	return files
}

func (a *authority) credentials(address string) *Credentials {
	a.t.Helper()
	c, err := NewCredentials(a.sign(a.t.TempDir(), address), quiet)
	if err != nil {
		a.t.Fatal(err)
	}
	return c
}

// Promise: sidecars with certificates of one authority know each other; whoever has
// none, or one of another authority, or of another host, is refused and counted.
func TestOnlyWhoHasACertificateOfTheAuthorityIsLetIn(t *testing.T) {
	ours, others := newAuthority(t), newAuthority(t)
	a := newHost(t, "node-a", time.Hour, "prefill")
	serve := func(c *Credentials) *Server {
		return a.serve(t.TempDir(), func(cfg *ServerConfig) { cfg.Secret = Secret{Certificates: c} })
	}
	dial := func(s *Server, c *Credentials) *Link {
		return newHost(t, "node-b", 0, "decode").dial(s.Addr().String(), func(cfg *LinkConfig) { cfg.Secret = Secret{Certificates: c} })
	}
	s := serve(ours.credentials("127.0.0.1"))
	good := dial(s, ours.credentials("127.0.0.1"))
	await(t, "sight", func() bool { return good.Status().Connected })

	wrong := dial(s, mixed(t, others, ours)) // it trusts ours, and shows another's
	await(t, "it is turned away", func() bool {
		return s.Served().Turned[BadCertificate] > 0 && wrong.Status().Ends[Refused] > 0
	})
	untrusted := dial(serve(mixed(t, others, ours)), ours.credentials("127.0.0.1"))
	await(t, "a server of another authority is refused", func() bool { return untrusted.Status().Ends[Refused] > 0 })
	elsewhere := dial(serve(ours.credentials("10.1.2.3")), ours.credentials("127.0.0.1"))
	await(t, "a server with another host's certificate is refused", func() bool { return elsewhere.Status().Ends[Refused] > 0 })

	for name, talk := range map[string]func(net.Conn) error{
		"no TLS":         func(c net.Conn) error { _, err := c.Write([]byte("hello, is anybody there?\n")); return err },
		"no certificate": func(c net.Conn) error { return tls.Client(c, &tls.Config{InsecureSkipVerify: true}).Handshake() },
	} {
		before := s.Served().Turned[BadCertificate]
		c, err := net.Dial("tcp", s.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		_ = talk(c)
		await(t, name+" is turned away", func() bool { return s.Served().Turned[BadCertificate] > before })
		c.Close()
	}
	if st := good.Status(); !st.Connected || st.Received != st.Taken {
		t.Errorf("the good one: %+v", st)
	}
	if n := s.Served().Connected; n != 1 {
		t.Errorf("%d are served", n)
	}
}

// mixed shows a certificate of one authority and trusts another.
func mixed(t testing.TB, shows, trusts *authority) *Credentials {
	t.Helper()
	files := shows.sign(t.TempDir(), "127.0.0.1")
	files.CA = trusts.sign(t.TempDir(), "127.0.0.1").CA
	c, err := NewCredentials(files, quiet)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Promise: certificates that were replaced are taken for the next connection; while
// they cannot be read the old ones stay in force.
func TestCertificatesAreReadAgainWhenTheyChange(t *testing.T) {
	ca, dir := newAuthority(t), t.TempDir()
	c, err := NewCredentials(ca.sign(dir, "127.0.0.1"), quiet)
	if err != nil {
		t.Fatal(err)
	}
	first, _ := c.current()
	later := time.Now().Add(time.Second)
	files := ca.sign(dir, "127.0.0.1")
	touch := func(path string) {
		t.Helper()
		later = later.Add(time.Second)
		if err := os.Chtimes(path, later, later); err != nil {
			t.Fatal(err)
		}
	}
	touch(files.Cert)
	second, _ := c.current()
	if string(first.Certificate[0]) == string(second.Certificate[0]) {
		t.Error("the old certificate is shown yet")
	}
	if err := os.WriteFile(files.Key, []byte("half of a k"), 0o600); err != nil {
		t.Fatal(err)
	}
	if third, _ := c.current(); string(third.Certificate[0]) != string(second.Certificate[0]) {
		t.Error("a key that is half written is taken")
	}
	if err := os.Remove(files.CA); err != nil {
		t.Fatal(err)
	}
	if _, cas := c.current(); cas == nil {
		t.Error("without the file there is no authority any more")
	}
	if _, err := NewCredentials(files, quiet); err == nil {
		t.Error("files that are not there are none at the start")
	}
}

func TestBeyondLoopbackATokenIsNotEnough(t *testing.T) {
	certificates := newAuthority(t).credentials("127.0.0.1")
	for address, want := range map[string]error{
		"127.0.0.1:1": nil, "[::1]:1": nil, "localhost:1": nil, "10.0.0.1:1": ErrOpen, "0.0.0.0:1": ErrOpen, "[::]:1": ErrOpen, "node-a:1": ErrOpen,
	} {
		if err := (Secret{Token: token}).Allowed(address); !errors.Is(err, want) {
			t.Errorf("%s with a token: %v", address, err)
		}
		if err := (Secret{Certificates: certificates}).Allowed(address); err != nil {
			t.Errorf("%s with certificates: %v", address, err)
		}
	}
	if err := (Secret{Token: "short"}).Allowed("127.0.0.1:1"); !errors.Is(err, ErrToken) {
		t.Errorf("a short token: %v", err)
	}
}

// Promise: on loopback a wrong token is refused, on both sides, and the right one is
// never said.
func TestAWrongTokenIsRefused(t *testing.T) {
	a, b := newHost(t, "node-a", 0, "prefill"), newHost(t, "node-b", 0, "decode")
	s := a.serve(t.TempDir(), nil)
	wrong := b.dial(s.Addr().String(), func(c *LinkConfig) { c.Secret.Token = "another token that is long" })
	await(t, "it is turned away", func() bool {
		return s.Served().Turned[BadToken] > 0 && wrong.Status().Ends[Refused] > 0
	})
	self := b.dial(b.serve(t.TempDir(), nil).Addr().String(), nil)
	await(t, "a node refuses itself", func() bool { return self.Status().Ends[Refused] > 0 })
	double := b.dial(s.Addr().String(), func(c *LinkConfig) { c.Meet = func(node string) bool { return node != "node-a" } })
	await(t, "a node refuses another's double", func() bool { return double.Status().Ends[Refused] > 0 })

	// One who serves without the token hears the proof, and cannot make one of it.
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			in := &frames{in: bufio.NewReader(c)}
			_, _ = c.Write(appendFrame(nil, kindHello, 0, 1, asJSON(greeting{Version: Version, Node: "node-x", Nonce: newNonce()})))
			if f, err := in.Next(); err == nil {
				g, _ := parse[greeting](f, kindHello)
				_, _ = c.Write(appendFrame(nil, kindWelcome, 1, 1, asJSON(welcome{Proof: g.Proof})))
			}
		}
	}()
	impostor := b.dial(l.Addr().String(), nil)
	await(t, "an impostor is refused", func() bool { return impostor.Status().Ends[Refused] > 0 })
}

// asClient dials a server as a test wants to.
func asClient(t testing.TB, s *Server) *talk {
	t.Helper()
	c, err := net.Dial("tcp", s.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	k := &talk{Conn: c, f: &fake{h: &host{}}, in: &frames{in: bufio.NewReader(c)}}
	f, err := k.in.Next()
	if err != nil {
		t.Fatal(err)
	}
	g, err := parse[greeting](f, kindHello)
	if err != nil {
		t.Fatal(err)
	}
	nonce := newNonce()
	k.say(kindHello, asJSON(greeting{Version: Version, Node: "node-x", Nonce: nonce, Proof: proofOf(token, roleDials, g.Nonce, nonce)}))
	return k
}

// Promise: one who dials and floods, or talks nonsense, or does not read, is turned
// away and counted; others are served on.
func TestOneWhoDialsAndMisbehavesIsTurnedAway(t *testing.T) {
	a, b := newHost(t, "node-a", 0, "prefill"), newHost(t, "node-b", 0, "decode")
	s := a.serve(t.TempDir(), nil)
	good := b.dial(s.Addr().String(), nil)
	await(t, "sight", func() bool { return good.Status().Connected })

	flood := asClient(t, s)
	for flood.say(kindPing, asTimes(1)) {
	}
	await(t, "a flood", func() bool { return s.Served().Turned[Flooding] > 0 })
	asClient(t, s).raw([]byte("nonsense that is as long as the head of a frame"))
	await(t, "nonsense", func() bool { return s.Served().Turned[BadGreeting] > 0 })

	deaf := asClient(t, s)
	deaf.say(kindInstances, asJSON([]string{"deaf"}))
	f := &lifecycle.Fact{Inst: "deaf", Src: lifecycle.RDMA, Ev: lifecycle.BytesMoved, From: "prefill", Addr: 1, Bytes: 1}
	await(t, "one who does not read", func() bool {
		for range 20_000 {
			f.T = a.now()
			s.Saw(f)
		}
		return s.Served().Turned[TooSlow] > 0
	})
	if st := good.Status(); !st.Connected || st.Ends != [NumEnd]uint64{} {
		t.Errorf("the good one: %+v", st)
	}
}

func TestNoMoreAreServedThanMayBe(t *testing.T) {
	s := newHost(t, "node-a", 0, "prefill").serve(t.TempDir(), nil)
	await(t, "one too many", func() bool {
		c, err := net.Dial("tcp", s.Addr().String())
		if err == nil {
			t.Cleanup(func() { c.Close() })
		}
		return s.Served().Turned[TooMany] > 0
	})
}
