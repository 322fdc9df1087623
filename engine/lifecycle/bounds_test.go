package lifecycle

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
)

// line completes the fields of an event to a fact.
func line(ev, fields string) string {
	return fmt.Sprintf(`{"t":1,"inst":"i","src":"engine","ev":%q%s}`, ev, fields)
}

// refused are facts that must not pass, and what the error must say.
var refused = []struct{ name, line, says string }{
	{"a run of 2^31 pages", line("pages_read", `,"req":"r","pool":"kv","pages":[[0,2147483648]]`), "outside 0 to 134217728"},
	{"a run beyond 64 bits", line("pages_read", `,"req":"r","pool":"kv","pages":[[0,18446744073709551616]]`), "does not fit 64 bits"},
	{"a run that overflows together", line("pages_read", `,"req":"r","pool":"kv","pages":[[134217728,1]]`), "no run of pages"},
	{"a run of no pages", line("pages_read", `,"req":"r","pool":"kv","pages":[[4,0]]`), "no run of pages"},
	{"a negative page", line("pages_read", `,"req":"r","pool":"kv","pages":[[-1,2]]`), "-1 is outside"},
	{"a run of one number", line("pages_read", `,"req":"r","pool":"kv","pages":[[4]]`), "has two numbers"},
	{"a run of three numbers", line("pages_read", `,"req":"r","pool":"kv","pages":[[4,1,1]]`), "more than 2"},
	{"a number among the runs", line("pages_read", `,"req":"r","pool":"kv","pages":[[4,1],0]`), "want an array, got a number"},
	{"pages that are no list", line("pages_read", `,"req":"r","pool":"kv","pages":4`), "want runs"},
	{"half a page", line("pages_read", `,"req":"r","pool":"kv","pages":[[4.5,1]]`), "without fraction"},
	{"too many runs", line("pages_read", `,"req":"r","pool":"kv","pages":[`+strings.Repeat("[1,1],", MaxRuns)+`[1,1]]`), "more than 65536"},
	{"a pool of 2^31 pages", line("pool_opened", `,"pool":"kv","pages":2147483648,"page_tokens":1`), "outside 0 to 134217728"},
	{"a pool of pages of no tokens", line("pool_opened", `,"pool":"kv","pages":1,"page_tokens":0`), "outside 1 to"},
	{"a stride below the bytes", line("pool_opened", `,"pool":"kv","pages":1,"page_tokens":1,"regions":[{"base":0,"stride":1,"bytes":2}]`), "at most the stride"},
	{"a pool beyond the address space", line("pool_opened", `,"pool":"kv","pages":134217728,"page_tokens":1,"regions":[{"base":0,"stride":281474976710656,"bytes":1}]`), "beyond 64 bits"},
	{"bytes beyond the address space", line("bytes_moved", `,"addr":18446744073709551615,"bytes":2`), "beyond 64 bits"},
	{"a gap that ends before it begins", line("stream_gap", `,"of":"rdma","from":3,"to":2`), "before from"},
	{"an unknown word", line("pages_written", `,"pool":"kv","pages":[],"by":"magic"`), "not one of forward, transfer, reload, copy"},
	{"a status of another event", line("transfer_completed", `,"xfer":"x","room":"1","peer":"p","status":"posted"`), "not one of [ok failed]"},
	{"an operation of another event", line("bytes_moved", `,"addr":1,"bytes":1,"op":"push"`), "does not belong here"},
	{"a missing field", line("pages_read", `,"pool":"kv","pages":[]`), `without "req"`},
	{"an empty name", line("pages_read", `,"req":"","pool":"kv","pages":[]`), `"req" is empty`},
	{"a long name", line("pages_read", `,"req":"`+strings.Repeat("r", MaxID+1)+`","pool":"kv","pages":[]`), "at most 256"},
	{"a copy from nowhere", line("pages_copied", `,"from":{},"to":{"pool":"kv","pages":[]}`), "want {pool, pages}"},
	{"text for a number", line("pool_audit", `,"pool":"kv","free":"1","cached":0,"held":0`), "want a whole number, got text"},
	{"a number for a truth", line("transfer_completed", `,"xfer":"x","room":"1","peer":"p","status":"ok","last":1`), "want true or false"},
	{"a time beyond 64 bits", `{"t":9223372036854775808,"inst":"i","src":"engine","ev":"pool_closed","pool":"kv"}`, "outside"},
	{"a time near the edge", `{"t":9223372036854775807,"inst":"i","src":"engine","ev":"pool_closed","pool":"kv"}`, "outside"},
	{"an exponent", `{"t":1e3,"inst":"i","src":"engine","ev":"pool_closed","pool":"kv"}`, "without fraction or exponent"},
	{"a leading zero", `{"t":01,"inst":"i","src":"engine","ev":"pool_closed","pool":"kv"}`, "not JSON"},
	{"a name twice", `{"t":1,"t":2,"inst":"i","src":"engine","ev":"pool_closed","pool":"kv"}`, "duplicate"},
	{"an unknown name twice", `{"t":1,"hue":1,"hue":2,"inst":"i","src":"engine","ev":"pool_closed","pool":"kv"}`, "duplicate"},
	{"an unknown source", `{"t":1,"inst":"i","src":"oracle","ev":"pool_closed","pool":"kv"}`, "not one of engine"},
	{"no instance", `{"t":1,"src":"engine","ev":"pool_closed","pool":"kv"}`, `without "inst"`},
	{"no time", `{"inst":"i","src":"engine","ev":"pool_closed","pool":"kv"}`, `"t" is missing`},
	{"no event", `{"t":1,"inst":"i","src":"engine"}`, `"ev" is missing`},
	{"an event without a name", `{"t":1,"inst":"i","src":"engine","ev":""}`, "empty"},
	{"a deep value", line("pool_closed", `,"pool":"kv","x":`+strings.Repeat("[", 20000)+strings.Repeat("]", 20000)), "depth"},
	{"a list", `[1]`, "want an object"},
	{"nothing", ``, "too early"},
	{"half an object", `{"t":1,"inst":"i`, "too early"},
	{"two objects", line("pool_closed", `,"pool":"kv"`) + `{}`, "more than one"},
	{"binary", "\x00\x01\x02\xff", "not JSON"},
	{"text that is not UTF-8", "{\"t\":1,\"inst\":\"\xff\",\"src\":\"engine\",\"ev\":\"pool_closed\",\"pool\":\"kv\"}", "UTF-8"},
}

func TestWhatIsOutOfBoundsIsRefusedInWords(t *testing.T) {
	dec := NewJSONDecoder()
	for _, c := range refused {
		_, err := dec.Decode([]byte(c.line))
		switch {
		case err == nil:
			t.Errorf("%s passed: %.200s", c.name, c.line)
		case !errors.Is(err, ErrFact):
			t.Errorf("%s: %v does not wrap ErrFact", c.name, err)
		case !strings.Contains(err.Error(), c.says):
			t.Errorf("%s: %q does not say %q", c.name, err, c.says)
		case len(err.Error()) > 600:
			t.Errorf("%s: the error repeats %d bytes", c.name, len(err.Error()))
		}
	}
}

func TestTheBoundsThemselvesPass(t *testing.T) {
	dec := NewJSONDecoder()
	for _, l := range []string{
		line("pages_read", `,"req":"`+strings.Repeat("r", MaxID)+`","pool":"kv","pages":[[134217727,1]]`),
		line("pages_read", `,"req":"r","pool":"kv","pages":[[0,134217728]]`),
		line("pages_read", `,"req":"r","pool":"kv","pages":[`+strings.Repeat("[1,1],", MaxRuns-1)+`[1,1]]`),
		line("bytes_moved", `,"addr":18446744073709551614,"bytes":1`),
		line("clock_offset", `,"ns":-4611686018427387904`),
	} {
		if _, err := dec.Decode([]byte(l)); err != nil {
			t.Errorf("%.120s: %v", l, err)
		}
	}
}

// Hostile lengths cost what the input costs, not what it announces.
func TestARefusedFactTakesNoMemory(t *testing.T) {
	cases := map[string]func() error{
		"a JSON run of 2^31 pages": decodes(NewJSONDecoder(), []byte(refused[0].line)),
		"a msgpack map of 2^32 members": decodes(NewMsgpackDecoder(),
			[]byte{0xdf, 0xff, 0xff, 0xff, 0xff}),
		"a msgpack name of 2^32 bytes": decodes(NewMsgpackDecoder(),
			[]byte{0x81, 0xdb, 0xff, 0xff, 0xff, 0xff}),
		"a msgpack list of 2^32 runs": decodes(NewMsgpackDecoder(),
			append([]byte{0x81, 0xa5, 'p', 'a', 'g', 'e', 's'}, 0xdd, 0xff, 0xff, 0xff, 0xff)),
	}
	for name, decode := range cases {
		const limit = 64 << 10
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		err := decode()
		runtime.ReadMemStats(&after)
		if err == nil {
			t.Errorf("%s passed", name)
		}
		if took := after.TotalAlloc - before.TotalAlloc; took > limit {
			t.Errorf("%s took %d bytes of memory, more than %d", name, took, limit)
		}
	}
}

func decodes(dec *Decoder, raw []byte) func() error {
	return func() error {
		_, err := dec.Decode(raw)
		return err
	}
}

func TestMsgpackThatBreaksOffAnywhereIsRefused(t *testing.T) {
	dec := NewMsgpackDecoder()
	for _, l := range goldenLines(t) {
		f, err := NewJSONDecoder().Decode([]byte(l))
		if err != nil {
			t.Fatal(err)
		}
		whole := f.AppendMsgpack(nil)
		for n := range whole {
			if _, err := dec.Decode(whole[:n]); !errors.Is(err, ErrFact) {
				t.Fatalf("the first %d of %d bytes of %s gave %v", n, len(whole), l, err)
			}
		}
		if _, err := dec.Decode(append(whole, 0xc0)); !errors.Is(err, ErrFact) {
			t.Fatalf("bytes after %s gave %v", l, err)
		}
	}
}

func TestMsgpackRefusesAFieldThatIsThereTwice(t *testing.T) {
	_, err := NewMsgpackDecoder().Decode([]byte{0x82, 0xa1, 't', 1, 0xa1, 't', 2})
	if err == nil || !strings.Contains(err.Error(), "twice") {
		t.Errorf("got %v", err)
	}
}
