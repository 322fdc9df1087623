package peer

import (
	"bufio"
	"crypto/tls"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/sidecar/credentials"
	"github.com/kvwitness/kvwitness/test/authority"
)

// credentialsOf are those of a node that is dialled at an address.
func credentialsOf(a *authority.Authority, address string) *credentials.Credentials {
	a.T.Helper()
	c, err := NewCredentials(credentials.Files(a.Sign(a.T.TempDir(), address)), quiet)
	if err != nil {
		a.T.Fatal(err)
	}
	return c
}

// Promise: sidecars with certificates of one authority know each other; whoever has
// none, or one of another authority, or of another host, is refused and counted.
func TestOnlyWhoHasACertificateOfTheAuthorityIsLetIn(t *testing.T) {
	ours, others := authority.New(t), authority.New(t)
	a := newHost(t, "node-a", time.Hour, "prefill")
	serve := func(c *credentials.Credentials) *Server {
		return a.serve(t.TempDir(), func(cfg *ServerConfig) { cfg.Secret = Secret{Certificates: c} })
	}
	dial := func(s *Server, c *credentials.Credentials) *Link {
		return newHost(t, "node-b", 0, "decode").dial(s.Addr().String(), func(cfg *LinkConfig) { cfg.Secret = Secret{Certificates: c} })
	}
	s := serve(credentialsOf(ours, "127.0.0.1"))
	good := dial(s, credentialsOf(ours, "127.0.0.1"))
	await(t, "sight", func() bool { return good.Status().Connected })

	wrong := dial(s, mixed(t, others, ours)) // it trusts ours, and shows another's
	await(t, "it is turned away", func() bool {
		return s.Served().Turned[BadCertificate] > 0 && wrong.Status().Ends[Refused] > 0
	})
	untrusted := dial(serve(mixed(t, others, ours)), credentialsOf(ours, "127.0.0.1"))
	await(t, "a server of another authority is refused", func() bool { return untrusted.Status().Ends[Refused] > 0 })
	elsewhere := dial(serve(credentialsOf(ours, "10.1.2.3")), credentialsOf(ours, "127.0.0.1"))
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
func mixed(t testing.TB, shows, trusts *authority.Authority) *credentials.Credentials {
	t.Helper()
	files := shows.Sign(t.TempDir(), "127.0.0.1")
	files.CA = trusts.Sign(t.TempDir(), "127.0.0.1").CA
	c, err := NewCredentials(credentials.Files(files), quiet)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestBeyondLoopbackATokenIsNotEnough(t *testing.T) {
	certificates := credentialsOf(authority.New(t), "127.0.0.1")
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
