package guest

import (
	"io"
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/kvwitness/kvwitness/sidecar/probe"
)

// Promise: a probe that something else started is taken at its socket, and ends when it
// is let go.
func TestAProbeOfElsewhereIsTaken(t *testing.T) {
	path := filepath.Join(t.TempDir(), "probe")
	ended := make(chan error, 1)
	go func() {
		var conn net.Conn
		var err error
		for end := time.Now().Add(time.Minute); conn == nil && time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
			conn, err = net.Dial("unix", path)
		}
		if conn == nil {
			ended <- err
			return
		}
		w := probe.NewWriter(conn)
		must(t, w.Hello())
		must(t, w.Frame(probe.Problem, []byte("it is dark")))
		must(t, w.Flush())
		_, err = conn.Read(make([]byte, 1))
		ended <- err
	}()
	g, err := Await(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	if k, text, err := g.Next(); k != probe.Problem || string(text) != "it is dark" || err != nil {
		t.Errorf("%v %q %v", k, text, err)
	}
	must(t, g.Close())
	if err := <-ended; err != io.EOF {
		t.Errorf("it ends by %v", err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}
