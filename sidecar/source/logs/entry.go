package logs

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

const (
	// maxEntry is the longest entry that is read, as JSON: a line of MaxLine bytes that
	// are not text is a list of numbers.
	maxEntry = 6 * MaxLine
	// maxCursor is the longest name of an entry's place that is kept.
	maxCursor = 512
	// maxDropped bounds how many entries journald may say at once that it dropped.
	maxDropped = 1 << 32
)

var errTooLong = errors.New("an entry of the journal is too long")

// nextEntry reads a line of any length, and keeps no more than maxEntry of it. What is
// behind the last end of a line is none.
func nextEntry(in *bufio.Reader) (line []byte, err error) {
	over := false
	for {
		piece, err := in.ReadSlice('\n')
		if over = over || len(line)+len(piece) > maxEntry; !over {
			line = append(line, piece...)
		}
		switch {
		case err == nil && over:
			return nil, errTooLong
		case err == nil:
			return line, nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		}
	}
}

// entry is what is read of one entry.
type entry struct {
	message    string
	invocation string // of the unit; empty: not said
	cursor     string // its place; empty: none that can be gone back to
	at         int64  // on the monotonic clock, in µs
	dropped    uint64 // entries that journald says it dropped of this unit
}

// field is one of the journal's, as journalctl --output=json has it: a text, or the
// bytes of one that is not UTF-8, or a list of these where there are several, of which
// the first is taken. null is one that was left out.
type field struct {
	text string
	said bool
}

// maxDepth: a list of lists of numbers.
const maxDepth = 2

func (f *field) UnmarshalJSON(raw []byte) error { return f.read(raw, maxDepth) }

func (f *field) read(raw []byte, depth int) error {
	switch {
	case string(raw) == "null":
		return nil
	case raw[0] == '"':
		f.said = true
		return json.Unmarshal(raw, &f.text)
	case raw[0] != '[' || depth == 0:
		return errors.New("a field is neither text nor bytes")
	}
	var several []json.RawMessage
	if err := json.Unmarshal(raw, &several); err != nil {
		return err
	}
	if len(several) > 0 && (several[0][0] == '"' || several[0][0] == '[') {
		return f.read(several[0], depth-1)
	}
	text := make([]byte, len(several))
	for i, n := range several {
		b, err := strconv.ParseUint(string(n), 10, 8)
		if err != nil {
			return errors.New("a byte of a field is none")
		}
		text[i] = byte(b)
	}
	f.text, f.said = string(text), true
	return nil
}

// parseEntry reads a line of journalctl --output=json.
func parseEntry(line []byte) (e entry, err error) {
	var raw struct {
		Message    field `json:"MESSAGE"`
		Invocation field `json:"_SYSTEMD_INVOCATION_ID"`
		Dropped    field `json:"N_DROPPED"`
		Cursor     field `json:"__CURSOR"`
		Monotonic  field `json:"__MONOTONIC_TIMESTAMP"`
	}
	if err := json.Unmarshal(line, &raw); err != nil {
		return e, fmt.Errorf("read an entry of the journal: %w", err)
	}
	if !raw.Message.said {
		return e, fmt.Errorf("read an entry of the journal: %w", io.ErrUnexpectedEOF)
	}
	e.message, e.invocation = raw.Message.text, raw.Invocation.text
	if e.at, err = strconv.ParseInt(raw.Monotonic.text, 10, 64); err != nil {
		return e, fmt.Errorf("read the time of an entry of the journal: %w", err)
	}
	if c := raw.Cursor.text; len(c) <= maxCursor && !strings.ContainsFunc(c, notOfCursor) {
		e.cursor = c
	}
	if n, err := strconv.ParseUint(raw.Dropped.text, 10, 64); err == nil {
		e.dropped = min(n, maxDropped)
	}
	return e, nil
}

func notOfCursor(r rune) bool {
	return !(r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '=' || r == ';')
}
