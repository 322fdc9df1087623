package evidence

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/kvwitness/kvwitness/sidecar/finding"
)

func exported(t testing.TB) (file []byte, head string) {
	t.Helper()
	s := openStore(t, Config{Dir: t.TempDir()})
	put(t, s, incident("x", finding.Blind), `{"n":0}`)
	head = put(t, s, incident("a", finding.StaleRead), `{"part":"opened","facts":[{"t":1.0,"é":"\u00e9"}]}`).Hash
	put(t, s, incident("x", finding.Blind), `{"n":1}`)
	put(t, s, incident("a", finding.StaleRead), `{"part":"completed"}`)
	var b bytes.Buffer
	if err := s.Export("a", &b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes(), head
}

func TestAnExportVerifiesAgainstTheHeadOfItsAlert(t *testing.T) {
	file, head := exported(t)
	for _, against := range []string{head, ""} {
		v, err := VerifyFile(bytes.NewReader(file), against)
		if err != nil || len(v.Own) != 2 || v.Links != 3 || v.Gaps != 0 || string(v.Own[1].Body) != `{"part":"completed"}` {
			t.Errorf("%+v, %v", v, err)
		}
	}
	if _, err := VerifyFile(bytes.NewReader(file), genesis); !errors.Is(err, ErrBroken) {
		t.Errorf("it verifies against another head: %v", err)
	}
}

// Promise: no byte of an export can be changed, left out or put in unseen.
func TestAChangedExportDoesNotVerify(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	file, head := exported(t)
	for at := range file {
		for what, changed := range map[string][]byte{
			"changed": append(append(bytes.Clone(file[:at]), file[at]^byte(1<<rng.IntN(8))), file[at+1:]...),
			"removed": append(bytes.Clone(file[:at]), file[at+1:]...),
			"added":   slices.Insert(bytes.Clone(file), at, byte(rng.IntN(256))),
			"spaced":  slices.Insert(bytes.Clone(file), at, ' '),
			"broken":  slices.Insert(bytes.Clone(file), at, '\n'),
			"cut":     file[:at],
		} {
			if bytes.Equal(changed, file) {
				continue
			}
			if _, err := VerifyFile(bytes.NewReader(changed), head); err == nil {
				t.Fatalf("byte %d %s: it verifies", at, what)
			}
		}
	}
}

// Promise: one who reckons all hashes anew is found out by the head of the alert.
func TestAForgedExportDoesNotVerifyAgainstTheAlert(t *testing.T) {
	_, head := exported(t)
	s := openStore(t, Config{Dir: t.TempDir()})
	put(t, s, incident("x", finding.Blind), `{"n":0}`)
	put(t, s, incident("a", finding.StaleRead), `{"part":"opened","facts":[]}`)
	var b bytes.Buffer
	if err := s.Export("a", &b); err != nil {
		t.Fatal(err)
	}
	if _, err := VerifyFile(bytes.NewReader(b.Bytes()), ""); err != nil {
		t.Error(err)
	}
	if _, err := VerifyFile(bytes.NewReader(b.Bytes()), head); !errors.Is(err, ErrBroken) {
		t.Errorf("forged, and it verifies: %v", err)
	}
}

// Whatever the file, reading it ends with an error or with what it proves.
func FuzzVerifyFile(f *testing.F) {
	file, _ := exported(f)
	f.Add(file)
	f.Add([]byte(`{"kvwitness_evidence":1}` + "\n"))
	f.Fuzz(func(t *testing.T, file []byte) {
		v, err := VerifyFile(bytes.NewReader(file), "")
		if err == nil && (len(v.Own) == 0 || v.Own[0].Hash != v.Head) {
			t.Fatalf("it proves nothing: %+v", v)
		}
	})
}
