package lifecycle

import (
	"bufio"
	"os"
	"reflect"
	"testing"
)

// goldenLines are testdata/v1.jsonl: each event of format v1, every field
// that it may carry shown at least once, as kvwitness itself writes it.
func goldenLines(t testing.TB) []string {
	t.Helper()
	file, err := os.Open("testdata/v1.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var lines []string
	for in := bufio.NewScanner(file); in.Scan(); {
		lines = append(lines, in.Text())
	}
	return lines
}

// The format is public: a line once written is read by every later version,
// and written again byte for byte.
func TestGoldenLinesAreWrittenAsTheyWereRead(t *testing.T) {
	dec := NewJSONDecoder()
	for _, line := range goldenLines(t) {
		f, err := dec.Decode([]byte(line))
		if err != nil {
			t.Errorf("%s\n%v", line, err)
			continue
		}
		if got := string(f.AppendJSON(nil)); got != line {
			t.Errorf("read and written again:\n got %s\nwant %s", got, line)
		}
	}
}

// A field added to the schema without a golden line would be untested.
func TestGoldenLinesShowEveryFieldOfEveryEvent(t *testing.T) {
	var shown [numEv]fields
	for _, line := range goldenLines(t) {
		var vals values
		if err := (jsonEncoding{}).cut([]byte(line), &vals); err != nil {
			t.Fatal(err)
		}
		f, err := NewJSONDecoder().Decode([]byte(line))
		if err != nil {
			t.Fatal(err)
		}
		for id := firstOwn; id < numFields; id++ {
			if vals[id] != nil {
				shown[f.Ev] |= set(id)
			}
		}
	}
	for ev := EvUnknown + 1; ev < numEv; ev++ {
		for todo := (schema[ev].must | schema[ev].may) &^ shown[ev]; todo != 0; todo &= todo - 1 {
			t.Errorf("no golden line of %s shows %q", ev, fieldNames[todo.first()])
		}
	}
}

// What one wire form says, the other can say.
func TestGoldenFactsAreTheSameInMsgpack(t *testing.T) {
	fromJSON, fromMsgpack := NewJSONDecoder(), NewMsgpackDecoder()
	for _, line := range goldenLines(t) {
		want, err := fromJSON.Decode([]byte(line))
		if err != nil {
			t.Fatal(err)
		}
		got, err := fromMsgpack.Decode(want.AppendMsgpack(nil))
		if err != nil {
			t.Errorf("%s\nin msgpack: %v", line, err)
		} else if !reflect.DeepEqual(got, want) {
			t.Errorf("%s\nin msgpack became %s", line, got.AppendJSON(nil))
		}
	}
}
