package tcp

import (
	"bytes"
	"context"
	"io"
	"net"
	"testing"
	"time"

	"github.com/kvwitness/kvwitness/engine/transfer"
)

// FuzzServer sends any bytes to a server and holds it to two promises: memory
// on either side of the region stays as it was, and every header is counted
// once. {0xA5} × 8 in the input stands for the region's address, so that the
// fuzzer can reach it.
func FuzzServer(f *testing.F) {
	marker := bytes.Repeat([]byte{0xA5}, 8)
	header := func(size uint64, op byte) []byte {
		b := AppendHeader(nil, Header{Size: size})
		copy(b[8:], marker)
		b[16] = op
		return b
	}
	f.Add(append(header(4, 1), "abcd"...))
	f.Add(append(header(64, 0x81), bytes.Repeat([]byte{1}, 64)...))
	f.Add(header(1<<63, 1))
	f.Add(append(header(64, 0), header(65, 0)...))
	arena := make([]byte, 192)
	mem := &transfer.Memory{}
	region, err := mem.Register(arena[64:128], nil)
	if err != nil {
		f.Fatal(err)
	}
	address := AppendHeader(nil, Header{Address: region.Base})[8:16]
	f.Fuzz(func(t *testing.T, in []byte) {
		s := NewServer(mem, ServerConfig{StallTimeout: time.Second, IdleTimeout: time.Second})
		at, err := s.Listen(context.Background(), "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		conn, err := net.Dial("tcp", at)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		go func() {
			_, _ = conn.Write(bytes.ReplaceAll(in, marker, address))
			_ = conn.(*net.TCPConn).CloseWrite()
		}()
		_, _ = io.Copy(io.Discard, conn)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(arena[:64], make([]byte, 64)) || !bytes.Equal(arena[128:], make([]byte, 64)) {
			t.Fatal("memory beside the region changed")
		}
		st := s.Stats()
		if st.RefusedAddress+st.RefusedEmpty+st.RefusedOpcode+st.Cut+st.CutHeaders > 1 {
			t.Fatalf("more than one end of one connection: %+v", st)
		}
	})
}
