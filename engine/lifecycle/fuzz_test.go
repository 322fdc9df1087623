package lifecycle

import (
	"bytes"
	"errors"
	"io"
	"reflect"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

// FuzzDecodeJSON: a line is refused with ErrFact, or it is a fact that both
// wire forms carry unchanged.
func FuzzDecodeJSON(f *testing.F) {
	for _, l := range goldenLines(f) {
		f.Add([]byte(l))
	}
	for _, c := range refused {
		if len(c.line) < 1000 {
			f.Add([]byte(c.line))
		}
	}
	dec, packed := NewJSONDecoder(), NewMsgpackDecoder()
	f.Fuzz(func(t *testing.T, raw []byte) {
		fact, err := dec.Decode(raw)
		if err != nil {
			if !errors.Is(err, ErrFact) {
				t.Fatalf("%v does not wrap ErrFact", err)
			}
			return
		}
		again, err := dec.Decode(fact.AppendJSON(nil))
		if err != nil || !reflect.DeepEqual(again, fact) {
			t.Fatalf("JSON: %v\n got %+v\nwant %+v", err, again, fact)
		}
		again, err = packed.Decode(fact.AppendMsgpack(nil))
		if err != nil || !reflect.DeepEqual(again, fact) {
			t.Fatalf("msgpack: %v\n got %+v\nwant %+v", err, again, fact)
		}
	})
}

// FuzzDecodeMsgpack: the same, from the other side.
func FuzzDecodeMsgpack(f *testing.F) {
	dec, text := NewMsgpackDecoder(), NewJSONDecoder()
	for _, l := range goldenLines(f) {
		fact, err := text.Decode([]byte(l))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(fact.AppendMsgpack(nil))
	}
	f.Add([]byte{0xdf, 0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, raw []byte) {
		fact, err := dec.Decode(raw)
		if err != nil {
			if !errors.Is(err, ErrFact) {
				t.Fatalf("%v does not wrap ErrFact", err)
			}
			return
		}
		again, err := text.Decode(fact.AppendJSON(nil))
		if err != nil || !reflect.DeepEqual(again, fact) {
			t.Fatalf("JSON: %v\n got %+v\nwant %+v", err, again, fact)
		}
	})
}

// FuzzReader: whatever a trace holds, both readers give the same facts and end
// in the same way.
func FuzzReader(f *testing.F) {
	f.Add([]byte(`{"ev":"trace","version":1,"node":"n"}` + "\n" + numbered(3)))
	for _, c := range damaged {
		if len(c.trace) < 100_000 {
			f.Add([]byte(c.trace))
		}
	}
	f.Fuzz(func(t *testing.T, trace []byte) {
		one := NewReader(bytes.NewReader(trace), "f")
		many := NewParallelReader(bytes.NewReader(trace), "f", 2)
		defer many.Close()
		for {
			a, errA := one.Next()
			b, errB := many.Next()
			if !reflect.DeepEqual(a, b) || !reflect.DeepEqual(errA, errB) {
				t.Fatalf("Reader gave %+v, %v\nParallelReader gave %+v, %v", a, errA, b, errB)
			}
			if errA == nil {
				continue
			}
			if at := (*LineError)(nil); errA != io.EOF && !errors.As(errA, &at) {
				t.Fatalf("%v names no line", errA)
			}
			return
		}
	})
}

// FuzzScan: scan takes nothing that jsontext refuses, and cuts it as the slow
// way does.
func FuzzScan(f *testing.F) {
	for _, l := range goldenLines(f) {
		f.Add([]byte(l))
	}
	for _, c := range refused {
		if len(c.line) < 1000 {
			f.Add([]byte(c.line))
		}
	}
	f.Add([]byte(` { "t" : 0 , "pages" : [ [ 1 , 2 ] , [ 3 , 4 ] ] , "last" : true } `))
	f.Fuzz(func(t *testing.T, raw []byte) {
		var fast, slow values
		if !scan(raw, &fast) {
			return
		}
		if !jsontext.Value(raw).IsValid() {
			t.Fatalf("scan took %q, which is not JSON", raw)
		}
		err := jsonEncoding{}.object(raw, func(key, value []byte) error {
			slow[fieldOf(key)] = value
			return nil
		})
		if err != nil || !reflect.DeepEqual(fast, slow) {
			t.Fatalf("%q: %v\nfast %q\nslow %q", raw, err, fast, slow)
		}
		samePlainRuns(t, fast[fPages])
	})
}

// samePlainRuns checks plainRuns against the reading that says what is wrong.
func samePlainRuns(t *testing.T, raw []byte) {
	t.Helper()
	if raw == nil || raw[0] != '[' {
		return
	}
	fast, plain := plainRuns(raw)
	if !plain {
		return
	}
	dec := newDecoder(slowRuns{})
	if slow, err := dec.runs(raw); err != nil || !reflect.DeepEqual(fast, slow) {
		t.Fatalf("%q: %v\nfast %v\nslow %v", raw, err, fast, slow)
	}
}

// slowRuns is jsonEncoding without its shortcut.
type slowRuns struct{ jsonEncoding }

func (slowRuns) plainRuns([]byte) (Runs, bool) { return nil, false }
