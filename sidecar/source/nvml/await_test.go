package nvml

import (
	"io"
	"net"
	"path/filepath"
	"testing"
	"time"
)

// Promise: a helper that something else started is taken at its socket, and ends when
// it is let go.
func TestAHelperOfElsewhereIsTaken(t *testing.T) {
	path := filepath.Join(t.TempDir(), "nvml")
	line, err := (&Sample{Version: Version, Begun: 1, Ended: 2, State: NoDriver}).Encode()
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		var conn net.Conn
		var err error
		for end := time.Now().Add(time.Minute); conn == nil && time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
			conn, err = net.Dial("unix", path)
		}
		if conn != nil {
			if _, err = conn.Write(line); err == nil {
				_, err = conn.Read(make([]byte, 1))
			}
		}
		ended <- err
	}()
	child, err := Await(t.Context(), StartConfig{Socket: path})
	if err != nil {
		t.Fatal(err)
	}
	if s, err := child.Next(); err != nil || s.State != NoDriver {
		t.Errorf("%+v, %v", s, err)
	}
	if stuck, err := child.Close(); stuck || err != nil {
		t.Errorf("%v, %v", stuck, err)
	}
	if err := <-ended; err != io.EOF {
		t.Errorf("it ends by %v", err)
	}
}
