package lifecycle

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// NewJSONDecoder reads facts that are single JSON objects.
func NewJSONDecoder() *Decoder { return newDecoder(jsonEncoding{}) }

// jsonEncoding lets jsontext check the whole object first (syntax, UTF-8,
// repeated names), so that what follows only slices well-formed bytes. Plain
// lines are checked by scan instead.
type jsonEncoding struct{}

func (j jsonEncoding) cut(raw []byte, vals *values) error {
	if scan(raw, vals) {
		return nil
	}
	*vals = values{}
	if err := checkJSON(raw); err != nil {
		return err
	}
	return j.object(raw, func(key, value []byte) error {
		if f := fieldOf(key); f < numFields && !j.isNull(value) {
			vals[f] = value
		}
		return nil
	})
}

func checkJSON(raw []byte) error {
	if jsontext.Value(raw).IsValid() {
		return nil
	}
	dec := jsontext.NewDecoder(bytes.NewReader(raw))
	if err := dec.SkipValue(); err != nil {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return errors.New("the JSON ends too early")
		}
		return fmt.Errorf("not JSON: %.200s", err.Error()) // it may quote a name of any length
	}
	return errors.New("more than one JSON value")
}

func (jsonEncoding) object(raw []byte, each func(key, value []byte) error) error {
	rest, err := open(raw, '{', "an object")
	for err == nil && rest[0] != '}' {
		var key, value []byte
		key, rest = cut(rest)
		value, rest = cut(rest[1:]) // after the colon
		if key, err = unquote(key); err == nil {
			err = each(key, value)
		}
		rest = next(rest)
	}
	return err
}

func (jsonEncoding) array(raw []byte, limit int, each func(value []byte) error) error {
	rest, err := open(raw, '[', "an array")
	for n := 0; err == nil && rest[0] != ']'; n++ {
		if n == limit {
			return fmt.Errorf("more than %d elements", limit)
		}
		var value []byte
		value, rest = cut(rest)
		err = each(value)
		rest = next(rest)
	}
	return err
}

func (jsonEncoding) plainRuns(raw []byte) (Runs, bool) { return plainRuns(raw) }

func (jsonEncoding) text(raw []byte, limit int) ([]byte, error) {
	if raw[0] != '"' {
		return nil, wantJSON("text", raw)
	}
	b, err := unquote(raw)
	if err == nil && len(b) > limit {
		err = fmt.Errorf("%d bytes of text, at most %d are allowed", len(b), limit)
	}
	return b, err
}

func (jsonEncoding) integer(raw []byte) (uint64, bool, error) {
	digits, negative := bytes.CutPrefix(raw, []byte("-"))
	v, err := strconv.ParseUint(string(digits), 10, 64)
	switch {
	case errors.Is(err, strconv.ErrRange):
		return 0, false, fmt.Errorf("%.40s does not fit 64 bits", raw)
	case err != nil:
		return 0, false, notWhole(raw)
	}
	return v, negative, nil
}

func (jsonEncoding) boolean(raw []byte) (bool, error) {
	switch string(raw) {
	case "true":
		return true, nil
	case "false":
		return false, nil
	}
	return false, wantJSON("true or false", raw)
}

func (jsonEncoding) isText(raw []byte) bool  { return raw[0] == '"' }
func (jsonEncoding) isEmpty(raw []byte) bool { return string(raw) == `""` }
func (jsonEncoding) isNull(raw []byte) bool  { return string(raw) == "null" }

func notWhole(raw []byte) error {
	if kindOf(raw) == "a number" {
		return fmt.Errorf("want a whole number without fraction or exponent, got %.40s", raw)
	}
	return wantJSON("a whole number", raw)
}

// wantJSON names the kind of value that was found, never its content.
func wantJSON(want string, raw []byte) error {
	return fmt.Errorf("want %s, got %s", want, kindOf(raw))
}

// kindOf says what a checked value is, by its first byte.
func kindOf(raw []byte) string {
	switch raw[0] {
	case '"':
		return "text"
	case '{':
		return "an object"
	case '[':
		return "an array"
	case 't', 'f':
		return "true or false"
	case 'n':
		return "null"
	}
	return "a number"
}

// open enters a checked object or array and stands at its first member.
func open(raw []byte, bracket byte, what string) ([]byte, error) {
	raw = space(raw)
	if raw[0] != bracket {
		return nil, wantJSON(what, raw)
	}
	return space(raw[1:]), nil
}

// next steps over the comma to the following member, if there is one.
func next(rest []byte) []byte {
	if rest[0] == ',' {
		return space(rest[1:])
	}
	return rest
}

// cut takes the value at the start of rest; what is left begins at the
// following colon, comma or bracket.
func cut(rest []byte) (value, left []byte) {
	rest = space(rest)
	i := 0
	switch rest[0] {
	case '"':
		i = quoted(rest)
	case '{', '[':
		i = nested(rest)
	default:
		i = bytes.IndexAny(rest, ",:]} \t\r\n")
	}
	return rest[:i], space(rest[i:])
}

// quoted is the length of the string at the start of b.
func quoted(b []byte) int {
	for i := 1; ; i++ {
		switch b[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
}

// nested is the length of the object or array at the start of b.
func nested(b []byte) int {
	deep := 0
	for i := 0; ; i++ {
		switch b[i] {
		case '"':
			i += quoted(b[i:]) - 1
		case '{', '[':
			deep++
		case '}', ']':
			if deep--; deep == 0 {
				return i + 1
			}
		}
	}
}

func space(b []byte) []byte {
	for len(b) > 0 && (b[0] == ' ' || b[0] == '\t' || b[0] == '\r' || b[0] == '\n') {
		b = b[1:]
	}
	return b
}

func unquote(raw []byte) ([]byte, error) {
	if bytes.IndexByte(raw, '\\') < 0 {
		return raw[1 : len(raw)-1], nil
	}
	return jsontext.AppendUnquote(nil, raw)
}
