package replay

import (
	"bytes"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// FuzzWrap: no line is too wide, and no letter is lost or moved.
func FuzzWrap(f *testing.F) {
	f.Add("a claim and an observation", 7)
	f.Add("überlangeswortohnelücke x", 3)
	f.Fuzz(func(t *testing.T, text string, width int) {
		if !utf8.ValidString(text) || width > 1000 {
			return
		}
		lines := Wrap(text, width)
		for _, line := range lines {
			if n := utf8.RuneCountInString(line); n > max(width, 1) || n == 0 {
				t.Fatalf("%q has %d runes, at most %d", line, n, width)
			}
		}
		squeezed := strings.Join(strings.Fields(text), "")
		if got := strings.ReplaceAll(strings.Join(lines, ""), " ", ""); got != squeezed {
			t.Fatalf("%q became %q", squeezed, got)
		}
	})
}

func TestProgressSaysHowFarAndHowLong(t *testing.T) {
	for _, c := range []struct {
		read, size int64
		took       time.Duration
		want       string
	}{
		{500e6, 2000e6, 5 * time.Second, "[######..................]  25% of 2000 MB, 15s left"},
		{0, 2000e6, 5 * time.Second, "[........................]   0% of 2000 MB"},
		{2000e6, 2000e6, 5 * time.Second, "[########################] 100% of 2000 MB, 0s left"},
		{500e6, 0, 5 * time.Second, "read 500 MB, 100 MB/s"},
	} {
		if got := progressLine(c.read, c.size, c.took); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}

func TestProgressIsGoneBeforeAnythingElseIsWritten(t *testing.T) {
	var terminal bytes.Buffer
	traces := &Traces{}
	p := ShowProgress(&terminal, traces)
	if _, err := p.Before(&terminal).Write([]byte("a finding")); err != nil {
		t.Fatal(err)
	}
	select {
	case <-p.done:
	default:
		t.Error("the progress still runs")
	}
	p.Stop()
	if terminal.String() != "a finding" { // a short replay shows no progress at all
		t.Errorf("got %q", terminal.String())
	}
}
