package credentials

import (
	"errors"
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/kvwitness/kvwitness/test/authority"
)

func load(files Files) (*Credentials, error) {
	return New(Config{Files: files, Of: "the test's", Protocols: []string{"test/1"}, Log: slog.New(slog.DiscardHandler)})
}

// Promise: certificates that were replaced are taken for the next connection; while
// they cannot be read the old ones stay in force.
func TestCertificatesAreReadAgainWhenTheyChange(t *testing.T) {
	ca, dir := authority.New(t), t.TempDir()
	c, err := load(Files(ca.Sign(dir, "127.0.0.1")))
	if err != nil {
		t.Fatal(err)
	}
	first, _ := c.current()
	later := time.Now().Add(time.Second)
	files := ca.Sign(dir, "127.0.0.1")
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
	if _, err := load(Files(files)); err == nil {
		t.Error("files that are not there are none at the start")
	}
}

// Promise: half of what is needed is refused; and without authorities a client is asked
// for nothing.
func TestACertificateNeedsItsKey(t *testing.T) {
	files := Files(authority.New(t).Sign(t.TempDir(), "127.0.0.1"))
	for name, half := range map[string]Files{
		"no key": {Cert: files.Cert, CA: files.CA}, "no certificate": {Key: files.Key}, "authorities only": {CA: files.CA},
	} {
		if _, err := load(half); !errors.Is(err, ErrHalf) {
			t.Errorf("%s: %v", name, err)
		}
	}
	c, err := load(Files{Cert: files.Cert, Key: files.Key})
	if err != nil || c.Mutual() || c.config().ClientAuth != 0 {
		t.Errorf("%v", err)
	}
}
