package lifecycle

import (
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// jsonSink writes compact JSON.
type jsonSink struct {
	buf  []byte
	need bool // a comma before the next member or element
}

// value stands before each value: a comma where one is needed.
func (j *jsonSink) value() {
	if j.need {
		j.buf = append(j.buf, ',')
	}
	j.need = true
}

func (j *jsonSink) open(bracket byte) {
	j.value()
	j.buf, j.need = append(j.buf, bracket), false
}

func (j *jsonSink) close(bracket byte) {
	j.buf, j.need = append(j.buf, bracket), true
}

func (j *jsonSink) objectBegin()   { j.open('{') }
func (j *jsonSink) objectEnd()     { j.close('}') }
func (j *jsonSink) arrayBegin(int) { j.open('[') }
func (j *jsonSink) arrayEnd()      { j.close(']') }

func (j *jsonSink) key(name string) {
	j.text(name)
	j.buf, j.need = append(j.buf, ':'), false
}

func (j *jsonSink) text(s string) {
	j.value()
	// The error says that s was not UTF-8; it is then written with
	// replacement characters, as AppendJSON promises.
	j.buf, _ = jsontext.AppendQuote(j.buf, s)
}

func (j *jsonSink) signed(v int64) {
	j.value()
	j.buf = strconv.AppendInt(j.buf, v, 10)
}

func (j *jsonSink) unsigned(v uint64) {
	j.value()
	j.buf = strconv.AppendUint(j.buf, v, 10)
}

func (j *jsonSink) boolean(v bool) {
	j.value()
	j.buf = strconv.AppendBool(j.buf, v)
}
