package daemon

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/kvwitness/kvwitness/sidecar/credentials"
	"github.com/kvwitness/kvwitness/test/authority"
)

// Promise: a sidecar that is told certificates is asked by https, and answers nobody
// without one; its pages' address in alerts is that.
func TestASidecarWithCertificatesIsAskedByThem(t *testing.T) {
	ca := authority.New(t)
	files := ca.Sign(t.TempDir(), "127.0.0.1")
	tb := newTable(t, fmt.Sprintf("listen_cert_file: %s\nlisten_key_file: %s\nlisten_ca_file: %s\n", files.Cert, files.Key, files.CA))
	if !strings.HasPrefix(tb.URL(), "https://") {
		t.Fatalf("it is at %s", tb.URL())
	}
	for want, who := range map[bool]credentials.Files{
		true: credentials.Files(ca.Sign(t.TempDir(), "127.0.0.1")), false: {CA: files.CA},
	} {
		trust, err := credentials.Asking(who)
		if err != nil {
			t.Fatal(err)
		}
		client := http.Client{Transport: &http.Transport{TLSClientConfig: trust, DisableKeepAlives: true}}
		resp, err := client.Get(tb.URL() + "/api/v1/state")
		if (err == nil) != want {
			t.Errorf("with a certificate %v: %v", want, err)
		}
		if err == nil {
			resp.Body.Close()
		}
	}
}
