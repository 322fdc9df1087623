package lifecycle

import (
	"encoding/binary"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/tinylib/msgp/msgp"
)

// sink writes the values of one wire form to memory: compact JSON, or msgpack.
// It is one concrete type because an interface would move it to the heap, and
// an engine that publishes must not allocate for it.
type sink struct {
	buf     []byte
	msgpack bool
	need    bool // JSON: a comma before the next member or element

	// The number of members of a msgpack map is known only at its end, so maps
	// have the 16-bit header and are counted while written.
	maps  [3]openMap // a fact nests maps two deep
	depth int
}

type openMap struct {
	at      int // where the count stands in buf
	members uint16
}

// comma stands before each JSON value that follows another.
func (s *sink) comma() {
	if s.need {
		s.buf = append(s.buf, ',')
	}
	s.need = true
}

func (s *sink) objectBegin() {
	if s.msgpack {
		s.buf = append(s.buf, 0xde, 0, 0) // map 16
		s.maps[s.depth] = openMap{at: len(s.buf) - 2}
		s.depth++
		return
	}
	s.comma()
	s.buf, s.need = append(s.buf, '{'), false
}

func (s *sink) objectEnd() {
	if s.msgpack {
		s.depth--
		o := s.maps[s.depth]
		binary.BigEndian.PutUint16(s.buf[o.at:], o.members)
		return
	}
	s.buf, s.need = append(s.buf, '}'), true
}

func (s *sink) arrayBegin(n int) {
	if s.msgpack {
		s.buf = msgp.AppendArrayHeader(s.buf, uint32(n))
		return
	}
	s.comma()
	s.buf, s.need = append(s.buf, '['), false
}

func (s *sink) arrayEnd() {
	if !s.msgpack {
		s.buf, s.need = append(s.buf, ']'), true
	}
}

// key writes the name of a member, which is one of format v1: plain ASCII.
func (s *sink) key(name string) {
	if s.msgpack {
		s.maps[s.depth-1].members++
		s.buf = msgp.AppendString(s.buf, name)
		return
	}
	s.comma()
	s.buf = append(append(append(s.buf, '"'), name...), '"', ':')
	s.need = false
}

// text writes v; what of it is not UTF-8 becomes replacement characters, since
// both decoders refuse other text.
func (s *sink) text(v string) {
	if !utf8.ValidString(v) {
		v = strings.ToValidUTF8(v, string(utf8.RuneError))
	}
	if s.msgpack {
		s.buf = msgp.AppendString(s.buf, v)
		return
	}
	s.comma()
	s.buf, _ = jsontext.AppendQuote(s.buf, v) // fails only where v is not UTF-8
}

func (s *sink) signed(v int64) {
	if s.msgpack {
		s.buf = msgp.AppendInt64(s.buf, v)
		return
	}
	s.comma()
	s.buf = strconv.AppendInt(s.buf, v, 10)
}

func (s *sink) unsigned(v uint64) {
	if s.msgpack {
		s.buf = msgp.AppendUint64(s.buf, v)
		return
	}
	s.comma()
	s.buf = strconv.AppendUint(s.buf, v, 10)
}

func (s *sink) boolean(v bool) {
	if s.msgpack {
		s.buf = msgp.AppendBool(s.buf, v)
		return
	}
	s.comma()
	s.buf = strconv.AppendBool(s.buf, v)
}
