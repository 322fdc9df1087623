package listen

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// dial connects once somebody listens.
func dial(t *testing.T, path string) net.Conn {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		c, err := net.Dial("unix", path)
		if err == nil {
			t.Cleanup(func() { _ = c.Close() })
			return c
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
	}
}

// Promise: a helper of another container is let in by its user; one comes in, and the
// next only when the sidecar waits again, whatever was left at the path.
func TestOneHelperIsLetInAtATime(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		in := make(chan *net.UnixConn, 1)
		go func() {
			c, err := Accept(t.Context(), path)
			if err != nil {
				t.Error(err)
			}
			in <- c
		}()
		theirs := dial(t, path)
		ours := <-in
		if ours == nil {
			t.FailNow()
		}
		if _, err := net.Dial("unix", path); err == nil {
			t.Error("a second one is let in")
		}
		if _, err := theirs.Write([]byte("hello")); err != nil {
			t.Fatal(err)
		}
		_ = theirs.Close()
		if text, err := io.ReadAll(ours); err != nil || string(text) != "hello" {
			t.Errorf("%q, %v", text, err)
		}
		_ = ours.Close()
	}
}

// Promise: who waits ends when the sidecar does.
func TestWaitingEndsWithTheSidecar(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := Accept(ctx, filepath.Join(t.TempDir(), "s"))
		ended <- err
	}()
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}
