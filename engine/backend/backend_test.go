package backend

import (
	"errors"
	"strings"
	"testing"

	"github.com/kvwitness/kvwitness/engine/model"
)

// Promise: a flagged result gives no logits and no token even if it has logits; the
// error names the first fault and counts pages once; Begin makes it new.
func TestAFlaggedResultFailsClosed(t *testing.T) {
	var r Result
	r.Begin(200)
	r.SetLogits([]float32{1, 2})
	first := Fault{Sequence: 3, Layer: 1, Head: 1, Block: 150, Page: 77, Expected: 5, Seen: 4, Moment: AfterRead}
	r.Flag(first)
	r.Flag(Fault{Block: 0, Moment: BeforeRead})
	r.Flag(Fault{Block: 150, Moment: BeforeRead})
	_, err := r.Logits()
	var fault *FaultError
	if !errors.Is(err, ErrPageTag) || !errors.As(err, &fault) || fault.First != first || fault.Pages != 2 {
		t.Fatalf("got %v", err)
	}
	for _, part := range []string{"2 pages", "page 77", "block 150", "layer 1", "kv head 1", "after read", "5/000000", "4/000000"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q does not say %q", err, part)
		}
	}
	if token, err := r.Sample(model.NewSampler(0, 0)); !errors.Is(err, ErrPageTag) {
		t.Fatalf("token %d, error %v", token, err)
	}
	r.Begin(10)
	if _, bad := r.Fault(); bad || r.Skipped() != 0 {
		t.Fatal("the fault outlived Begin")
	}
	if _, err := r.Logits(); !errors.Is(err, ErrNoLogits) {
		t.Fatalf("the logits outlived Begin: %v", err)
	}
}

// Promise: logits that are no numbers give no token.
func TestLogitsThatAreNoNumbersGiveNoToken(t *testing.T) {
	var r Result
	r.Begin(1)
	zero := float32(0)
	r.SetLogits([]float32{zero / zero, zero / zero})
	if token, err := r.Sample(model.NewSampler(0, 0)); !errors.Is(err, ErrNoLogits) {
		t.Fatalf("token %d, error %v", token, err)
	}
}

// Promise: memory that the CPU cannot address is never resolved to bytes.
func TestDeviceMemoryIsNotResolved(t *testing.T) {
	device := []Region{{Base: 4096, Stride: 64, PageBytes: 64, Pages: 4, Length: 4096}}
	if got, err := Resolve(4096, 8, device); !errors.Is(err, ErrAddress) {
		t.Fatalf("got %v, %v", got, err)
	}
}
