package evidence

import (
	"bytes"
	"compress/flate"
	"fmt"
	"io"
	"sync"
)

// packers are reused: each takes a megabyte.
var packers = sync.Pool{New: func() any {
	w, _ := flate.NewWriter(nil, flate.BestSpeed) // the level is one that there is
	return w
}}

func deflated(body []byte) ([]byte, error) {
	var b bytes.Buffer
	w := packers.Get().(*flate.Writer)
	defer packers.Put(w)
	w.Reset(&b)
	if _, err := w.Write(body); err != nil {
		return nil, fmt.Errorf("pack an entry: %w", err)
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("pack an entry: %w", err)
	}
	return b.Bytes(), nil
}

// inflated refuses what would be larger than a body may be.
func inflated(small []byte) ([]byte, error) {
	r := flate.NewReader(bytes.NewReader(small))
	body, err := io.ReadAll(io.LimitReader(r, MaxBody+1))
	if err != nil {
		return nil, fmt.Errorf("unpack an entry: %w", err)
	}
	if len(body) > MaxBody {
		return nil, fmt.Errorf("unpack an entry: larger than %d bytes", MaxBody)
	}
	return body, nil
}
