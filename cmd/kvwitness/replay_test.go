package main

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"
)

// What the command may take at most, whatever it is given.
const maxMemory = 512 << 20

const (
	harmless = `{"t":1,"node":"n","inst":"i","src":"engine","ev":"pool_opened","pool":"kv","pages":8,"page_tokens":64}` + "\n"
	// gap is a finding of its own, wherever it stands.
	gap = `{"t":2,"node":"n","inst":"i","src":"sidecar","ev":"stream_gap","of":"engine","from":1,"to":3}` + "\n"
)

func TestTheExitStatusSaysWhatWasFound(t *testing.T) {
	kvwitness(t, "replay", file(t, "a", harmless)).expect(t, statusFine, "1 fact from 1 trace: no finding")
	kvwitness(t, "replay", file(t, "a", harmless+gap)).expect(t, statusFound, "INCIDENT 1", "blind", "kvwitness explain blind")
	kvwitness(t, "replay", file(t, "a", harmless), file(t, "b", gap)).expect(t, statusFound, "2 facts from 2 traces")
	kvwitness(t, "replay", "/nowhere/a").expect(t, statusError, "/nowhere/a")
}

func TestTheLogSaysWhatTheSettingsAskFor(t *testing.T) {
	path := file(t, "a", harmless)
	if r := kvwitness(t, "replay", path); r.notes != "" {
		t.Errorf("it logs unasked: %s", r.notes)
	}
	kvwitness(t, "replay", "--log-level", "debug", path).expect(t, statusFine, `level=DEBUG msg="replay ended" facts=1 findings=0`)
	kvwitness(t, "replay", "--log-level", "debug", "--log-format", "json", path).expect(t, statusFine, `"msg":"replay ended","facts":1`)
}

func TestTheIncidentIsFoundAndExplained(t *testing.T) {
	r := kvwitness(t, "replay", "../../test/traces/incident.jsonl")
	r.expect(t, statusFound, "short_handoff", "stale_read", "rejected_handoff", "capacity_inversion",
		"whose data was exposed", "what to do: kvwitness explain stale_read")
	if strings.ContainsRune(r.out, '\x1b') {
		t.Error("colours without a terminal")
	}
}

func TestJSONHasOneObjectALineAndVerdictsOnRequest(t *testing.T) {
	r := kvwitness(t, "replay", "--json", "../../test/traces/incident.jsonl")
	r.expect(t, statusFound)
	for line := range strings.Lines(r.out) {
		if !strings.HasPrefix(line, `{"kind":"`) || !strings.HasSuffix(line, "}\n") {
			t.Errorf("not a finding: %s", line)
		}
	}
	r = kvwitness(t, "replay", "--json", "--verdicts", "../../test/traces/incident.jsonl")
	r.expect(t, statusFound, `{"verdict":"violated","req":"`)
}

func TestATraceMayBePackedOrPiped(t *testing.T) {
	plain := harmless + gap
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	if _, err := io.WriteString(w, plain); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	want := kvwitness(t, "replay", file(t, "a.jsonl", plain)).out
	for name, got := range map[string]result{
		"gzip":       kvwitness(t, "replay", file(t, "a.jsonl.gz", packed.String())),
		"pipe":       start(t, nil, strings.NewReader(plain), "replay", "-"),
		"gzip, pipe": start(t, nil, &packed, "replay", "-"),
	} {
		got.expect(t, statusFound)
		if got.out != want {
			t.Errorf("%s: got\n%s\nwant\n%s", name, got.out, want)
		}
	}
}

// Every kind of damage: a status, the file, the line, and what came before.
func TestDamagedTracesAreNamedByFileAndLine(t *testing.T) {
	before := harmless + gap
	for name, c := range map[string]struct {
		trace string
		line  int
		says  string
	}{
		"empty":              {"", 1, "no evidence"},
		"truncated":          {before + `{"t":3,"no`, 3, "ends too early"},
		"binary":             {before + "\x7fELF\x00\x00\xff\n", 3, "not JSON"},
		"wrong type":         {before + `{"t":"3","inst":"i","src":"engine","ev":"pool_closed","pool":"kv"}`, 3, "want a whole number, got text"},
		"negative":           {before + `{"t":3,"inst":"i","src":"engine","ev":"pages_read","req":"r","pool":"kv","pages":[[-1,1]]}`, 3, "-1 is outside"},
		"overflowing":        {before + `{"t":99999999999999999999,"inst":"i","src":"engine","ev":"pool_closed","pool":"kv"}`, 3, "does not fit 64 bits"},
		"a run of 2^31":      {before + `{"t":3,"inst":"i","src":"engine","ev":"pages_read","req":"r","pool":"kv","pages":[[0,2147483648]]}`, 3, "outside 0 to 134217728"},
		"a later version":    {`{"ev":"trace","version":9}` + "\n", 1, "version 9"},
		"not UTF-8":          {before + "{\"t\":3,\"inst\":\"\xff\"}", 3, "UTF-8"},
		"blank and then bad": {before + "\n\n\n[]\n", 6, "want an object"},
	} {
		path := file(t, "trace.jsonl", c.trace)
		r := kvwitness(t, "replay", "--json", path)
		r.expect(t, statusError, fmt.Sprintf("%s:%d: ", path, c.line), c.says)
		if found := strings.Contains(r.out, `"kind":"blind"`); found != strings.HasPrefix(c.trace, before) {
			t.Errorf("%s: the finding before the damage is said: %t", name, found)
		}
		if r.peak > maxMemory {
			t.Errorf("%s took %d MiB", name, r.peak>>20)
		}
	}
}

// repeated gives n times one byte.
type repeated struct {
	b    byte
	left int64
}

func (r *repeated) Read(p []byte) (int, error) {
	if r.left == 0 {
		return 0, io.EOF
	}
	p = p[:min(int64(len(p)), r.left)]
	for i := range p {
		p[i] = r.b
	}
	r.left -= int64(len(p))
	return len(p), nil
}

func TestAGigabyteInOneLineIsRefusedWithLittleMemory(t *testing.T) {
	const limit = 128 << 20
	long := func() io.Reader {
		return io.MultiReader(strings.NewReader(harmless+gap+`{"t":3,"node":"`), &repeated{'x', 1 << 30})
	}
	r := start(t, nil, long(), "replay", "--json", "-")
	r.expect(t, statusError, "standard input:3: ", "longer than 4194304 bytes", `"kind":"blind"`)
	if r.peak > limit {
		t.Errorf("it took %d MiB, more than %d", r.peak>>20, limit>>20)
	}

	// The same, a thousand times smaller on its way.
	packed, pipe := io.Pipe()
	defer packed.Close()
	go func() {
		w := gzip.NewWriter(pipe)
		_, err := io.Copy(w, long())
		pipe.CloseWithError(errors.Join(err, w.Close()))
	}()
	r = start(t, nil, packed, "replay", "--json", "-")
	r.expect(t, statusError, "standard input:3: ", "longer than 4194304 bytes")
	if r.peak > limit {
		t.Errorf("packed, it took %d MiB, more than %d", r.peak>>20, limit>>20)
	}
}

// Blank lines are no facts: a gigabyte of them costs time, not memory.
func TestAnEndlessTraceOfNothingTakesLittleMemory(t *testing.T) {
	const limit = 128 << 20
	r := start(t, nil, &repeated{'\n', 256 << 20}, "replay", "-")
	r.expect(t, statusError, "standard input:268435456: ", "no evidence")
	if r.peak > limit {
		t.Errorf("it took %d MiB, more than %d", r.peak>>20, limit>>20)
	}
}

func TestAReaderThatLeavesEndsTheCommandQuietly(t *testing.T) {
	var many strings.Builder
	many.WriteString(harmless)
	for i := range 100_000 {
		fmt.Fprintf(&many, `{"t":%d,"node":"n","inst":"i","src":"sidecar","ev":"events_lost","of":"rdma","count":1}`+"\n", 10+i)
	}
	path := file(t, "a", many.String())
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	proc, err := os.StartProcess(binary, []string{binary, "replay", "--json", path}, &os.ProcAttr{Files: []*os.File{nil, w, w}})
	if err != nil {
		t.Fatal(err)
	}
	w.Close()
	r.Close()
	state, err := proc.Wait()
	if err != nil {
		t.Fatal(err)
	}
	if status := state.Sys().(syscall.WaitStatus); !status.Signaled() || status.Signal() != syscall.SIGPIPE {
		t.Errorf("ended with %v", state)
	}
}
