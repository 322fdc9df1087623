package replay

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kvwitness/kvwitness/engine/lifecycle"
	"github.com/kvwitness/kvwitness/sidecar/finding"
)

func TestSeveralTracesAreMergedByTimeAndStably(t *testing.T) {
	judge := &script{}
	_, err := play(t, judge, &mute{},
		fact("a", 1)+fact("a", 5)+fact("a", 5)+fact("a", 9),
		fact("b", 1)+fact("b", 4)+fact("b", 5),
		fact("c", 0)+fact("c", 10))
	want := []string{"c 0", "a 1", "b 1", "b 4", "a 5", "a 5", "b 5", "a 9", "c 10"}
	if err != nil || !slices.Equal(judge.seen, want) {
		t.Errorf("%v, got %v, want %v", err, judge.seen, want)
	}
}

// The order within a trace is evidence of its own: it is never changed.
func TestATraceOutOfOrderKeepsItsOrder(t *testing.T) {
	judge := &script{}
	_, err := play(t, judge, &mute{}, fact("a", 7)+fact("a", 2)+fact("a", 8), fact("b", 1)+fact("b", 6)+fact("b", 9))
	want := []string{"b 1", "b 6", "a 7", "a 2", "a 8", "b 9"}
	if err != nil || !slices.Equal(judge.seen, want) {
		t.Errorf("%v, got %v, want %v", err, judge.seen, want)
	}
}

func TestNodesWhoseClocksDifferAreMergedByTheirOffset(t *testing.T) {
	offset := func(node string, ns int64) string {
		return fmt.Sprintf(`{"ev":"trace","version":1,"node":%q}`+"\n"+`{"t":%d,"src":"sidecar","ev":"clock_offset","ns":%d}`+"\n", node, ns, ns)
	}
	judge := &script{}
	_, err := play(t, judge, &mute{},
		offset("n1", 1000)+fact("a", 1010)+fact("a", 1030),
		offset("n2", -500)+fact("b", -480)+fact("b", -460))
	want := []string{" 1000", " -500", "a 1010", "b -480", "a 1030", "b -460"}
	if err != nil || !slices.Equal(judge.seen, want) {
		t.Errorf("%v, got %v, want %v", err, judge.seen, want)
	}
}

func TestAnyNumberOfTracesGivesEachFactOnceInOrder(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	var traces []string
	facts := 0
	for i := range 1 + r.IntN(20) {
		var b strings.Builder
		at := int64(0)
		for range 1 + r.IntN(300) {
			at += r.Int64N(3)
			b.WriteString(fact(fmt.Sprint(i), at))
			facts++
		}
		traces = append(traces, b.String())
	}
	judge := &script{}
	s, err := play(t, judge, &mute{}, traces...)
	if err != nil || s.Facts != facts || len(judge.seen) != facts {
		t.Fatalf("%d facts, %d seen, want %d, %v", s.Facts, len(judge.seen), facts, err)
	}
	var lastInst, lastAt int
	for _, seen := range judge.seen {
		var inst, at int
		if _, err := fmt.Sscan(seen, &inst, &at); err != nil {
			t.Fatal(err)
		}
		if at < lastAt || at == lastAt && inst < lastInst {
			t.Fatalf("%d of trace %d came after %d of trace %d", at, inst, lastAt, lastInst)
		}
		lastInst, lastAt = inst, at
	}
}

func TestWhatCameBeforeDamageIsJudgedAndSaid(t *testing.T) {
	judge := &script{
		at:       map[int64][]finding.Finding{2: {{Kind: finding.StaleRead}}},
		atEnd:    []finding.Finding{{Kind: finding.ShortHandoff}},
		verdicts: []finding.Verdict{{Verdict: finding.Violated}},
	}
	out := &mute{}
	s, err := play(t, judge, out, fact("a", 1)+"{broken\n"+fact("a", 3), fact("b", 0)+fact("b", 1)+fact("b", 2))
	var at *lifecycle.LineError
	if !errors.As(err, &at) || at.Line != 2 || !strings.HasSuffix(at.File, "0.jsonl") {
		t.Errorf("got %v", err)
	}
	if want := []string{"b 0", "a 1"}; !slices.Equal(judge.seen, want) {
		t.Errorf("judged %v, want %v", judge.seen, want)
	}
	if !judge.closed || out.findings != 1 || out.verdicts != 1 || out.ends != 1 || s.Found() != 1 || !errors.Is(s.Broken, err) {
		t.Errorf("closed %t, %+v, %d found, broken %v", judge.closed, out, s.Found(), s.Broken)
	}
}

type full struct{ mute }

var errFull = errors.New("the disk is full")

func (full) Finding(*finding.Finding) error { return errFull }

func TestAnOutputThatFailsEndsTheReplay(t *testing.T) {
	judge := &script{at: map[int64][]finding.Finding{1: {{}}}}
	if _, err := play(t, judge, &full{}, fact("a", 1)+fact("a", 2)); !errors.Is(err, errFull) || len(judge.seen) != 1 {
		t.Errorf("%v after %v", err, judge.seen)
	}
}

func TestEveryPackingGivesTheSameFacts(t *testing.T) {
	var b strings.Builder
	for i := range int64(5000) {
		b.WriteString(fact("a", i))
	}
	plain := b.String()
	half := len(fact("a", 0)) * 10
	for name, text := range map[string]string{
		"plain":             plain,
		"gzip":              zipped(t, plain),
		"gzip of two parts": zipped(t, plain[:half]) + zipped(t, plain[half:]),
	} {
		for _, opened := range []func() (*Traces, error){
			func() (*Traces, error) { return Open([]string{file(t, "x", text)}, nil) },
			func() (*Traces, error) { return Open([]string{Stdin}, strings.NewReader(text)) },
		} {
			traces, err := opened()
			if err != nil {
				t.Fatal(err)
			}
			s, err := Run(traces, &script{}, &mute{})
			traces.Close()
			if err != nil || s.Facts != 5000 {
				t.Errorf("%s: %d facts, %v", name, s.Facts, err)
			}
			if read := traces.read.Load(); read != int64(len(text)) {
				t.Errorf("%s: counted %d of %d bytes", name, read, len(text))
			}
		}
	}
}

func TestAPackedTraceThatIsDamagedIsNamedByLine(t *testing.T) {
	whole := zipped(t, fact("a", 1)+fact("a", 2)+strings.Repeat(" ", 100_000)+fact("a", 3))
	flipped := []byte(whole)
	flipped[len(flipped)-5] ^= 1 // in the checksum
	for name, c := range map[string]struct {
		text string
		says string
	}{
		"cut short":    {whole[:len(whole)-40], "gunzip: unexpected EOF"},
		"bad checksum": {string(flipped), "gunzip: gzip: invalid checksum"},
		"junk after":   {whole + strings.Repeat("junk", 10), "gunzip: gzip: invalid header"},
	} {
		_, err := play(t, &script{}, &mute{}, c.text)
		var at *lifecycle.LineError
		if !errors.As(err, &at) || at.Line < 1 || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestWhatCannotBeOpenedIsNamed(t *testing.T) {
	good := file(t, "a", fact("a", 1))
	for name, c := range map[string]struct {
		files []string
		stdin io.Reader
		says  string
	}{
		"a missing file":     {[]string{good, "/nowhere/b.jsonl"}, nil, "/nowhere/b.jsonl"},
		"a folder":           {[]string{t.TempDir()}, nil, "is a directory"},
		"stdin twice":        {[]string{Stdin, Stdin}, strings.NewReader(""), "twice"},
		"too many":           {slices.Repeat([]string{good}, MaxFiles+1), nil, "at most 256"},
		"half a gzip header": {[]string{Stdin}, strings.NewReader("\x1f\x8b\x08"), "standard input: gunzip"},
	} {
		if _, err := Open(c.files, c.stdin); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAnEmptyTraceIsNoEvidence(t *testing.T) {
	for _, text := range []string{"", "\n\n", zipped(t, "")} {
		if _, err := play(t, &script{}, &mute{}, text); !errors.Is(err, lifecycle.ErrNoFacts) {
			t.Errorf("%q: %v", text, err)
		}
	}
}
