package lifecycle

import (
	"math/rand/v2"
	"reflect"
	"testing"
	"time"
)

// seeded prints its seed where the test fails, so that the failure can be had again.
func seeded(t *testing.T) *rand.Rand {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("seed %d", seed)
		}
	})
	return rand.New(rand.NewPCG(seed, 1))
}

func TestEveryEventSurvivesBothWireForms(t *testing.T) {
	r := seeded(t)
	fromJSON, fromMsgpack := NewJSONDecoder(), NewMsgpackDecoder()
	for ev := EvUnknown + 1; ev < numEv; ev++ {
		for range 200 {
			want := randomFact(r, ev)
			line, packed := want.AppendJSON(nil), want.AppendMsgpack(nil)
			got, err := fromJSON.Decode(line)
			if err != nil || !reflect.DeepEqual(got, want) {
				t.Fatalf("JSON (%v):\n got %+v\nwant %+v\nline %s", err, got, want, line)
			}
			got, err = fromMsgpack.Decode(packed)
			if err != nil || !reflect.DeepEqual(got, want) {
				t.Fatalf("msgpack (%v):\n got %+v\nwant %+v", err, got, want)
			}
		}
	}
}

func TestAnEventOfALaterVersionKeepsItsName(t *testing.T) {
	f, err := NewJSONDecoder().Decode([]byte(`{"t":1,"src":"engine","inst":"i","ev":"pages_pinned","pages":"?"}`))
	if err != nil {
		t.Fatal(err)
	}
	if f.Ev != EvUnknown || f.Name != "pages_pinned" {
		t.Errorf("got %v %q", f.Ev, f.Name)
	}
}

func TestFieldsOfALaterVersionAreIgnored(t *testing.T) {
	f, err := NewJSONDecoder().Decode([]byte(`{"t":1,"src":"engine","inst":"i","ev":"pool_closed","pool":"kv","hue":{"a":[1,{"b":null}]},"req":7}`))
	if err != nil {
		t.Fatal(err)
	}
	if want := (&Fact{T: 1, Src: Engine, Inst: "i", Ev: PoolClosed, Pool: "kv"}); !reflect.DeepEqual(f, want) {
		t.Errorf("got %+v", f)
	}
}

func TestANameMayBeAWholeNumber(t *testing.T) {
	f, err := NewJSONDecoder().Decode([]byte(`{"t":1,"src":"engine","inst":"i","ev":"request_admitted","req":18446744073709551615,"room":0}`))
	if err != nil || f.Req != "18446744073709551615" || f.Room != "0" {
		t.Errorf("got %q %q, %v", f.Req, f.Room, err)
	}
}

// Absent and null are the same, and differ from empty and from zero.
func TestNoDataIsNotZero(t *testing.T) {
	dec := NewJSONDecoder()
	for line, want := range map[string]Fact{
		`{"t":1,"src":"engine","inst":"i","ev":"request_admitted","req":"r","domain":null,"prompt_tokens":null}`: {},
		`{"t":1,"src":"engine","inst":"i","ev":"request_admitted","req":"r","domain":"","prompt_tokens":0}`:      {Domain: Some(""), PromptTokens: Some[int64](0)},
	} {
		f, err := dec.Decode([]byte(line))
		if err != nil || f.Domain != want.Domain || f.PromptTokens != want.PromptTokens {
			t.Errorf("%s: %+v %+v, %v", line, f.Domain, f.PromptTokens, err)
		}
	}
}

func TestTextThatIsNotUTF8IsWrittenSoThatItCanBeRead(t *testing.T) {
	f := &Fact{T: 1, Src: Engine, Inst: "i\xff\xfe", Ev: PoolClosed, Pool: "kv"}
	byJSON, err := NewJSONDecoder().Decode(f.AppendJSON(nil))
	if err != nil || byJSON.Inst != "i\ufffd" {
		t.Errorf("JSON: %v, %+v", err, byJSON)
	}
	byMsgpack, err := NewMsgpackDecoder().Decode(f.AppendMsgpack(nil))
	if err != nil || !reflect.DeepEqual(byMsgpack, byJSON) {
		t.Errorf("msgpack: %v, %+v", err, byMsgpack)
	}
}

// The engine publishes on its serving path.
func TestEncodingDoesNotAllocate(t *testing.T) {
	r := seeded(t)
	buf := make([]byte, 0, 1<<16)
	for ev := EvUnknown + 1; ev < numEv; ev++ {
		f := randomFact(r, ev)
		if n := testing.AllocsPerRun(10, func() { buf = f.AppendJSON(buf[:0]) }); n != 0 {
			t.Errorf("%s in JSON: %v allocations", ev, n)
		}
		if n := testing.AllocsPerRun(10, func() { buf = f.AppendMsgpack(buf[:0]) }); n != 0 {
			t.Errorf("%s in msgpack: %v allocations", ev, n)
		}
	}
}
