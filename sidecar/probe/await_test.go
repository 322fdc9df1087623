package probe

import (
	"io"
	"net"
	"path/filepath"
	"testing"
	"time"
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
		w := NewWriter(conn)
		must(t, w.Hello())
		must(t, w.Frame(Problem, []byte("it is dark")))
		must(t, w.Flush())
		_, err = conn.Read(make([]byte, 1))
		ended <- err
	}()
	g, err := Await(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	if k, text, err := g.Next(); k != Problem || string(text) != "it is dark" || err != nil {
		t.Errorf("%v %q %v", k, text, err)
	}
	must(t, g.Close())
	if err := <-ended; err != io.EOF {
		t.Errorf("it ends by %v", err)
	}
}
